"""Chromium without a window, for what only a browser can tell. Without it the tests say what they
leave out.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_LEFT_OUT = "Chromium is not installed: the report page is not opened"


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip(_LEFT_OUT)
    missing = "Playwright is not installed: `make test-physical` does it"
    sync_api = pytest.importorskip("playwright.sync_api", reason=missing)
    with sync_api.sync_playwright() as playwright:
        # Its sandbox wants rights that root and containers do not have; it sees no pages but ours.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


class Opened:
    """A page in the browser, with all that went wrong on it."""

    def __init__(self, browser: Browser, file: Path, **context: Any) -> None:  # noqa: ANN401
        """Opens a file from the disk, as people do."""
        context = {"viewport": {"width": 1200, "height": 900}, **context}
        self.context = browser.new_context(offline=True, **context)
        self.page = self.context.new_page()
        self.wrong: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.wrong.append(message.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("footer")

    def scale(self, key: str, axis: str = "x") -> tuple[float, float]:
        """The visible range of an axis of a picture."""
        shown = self.page.get_attribute(f'#pictures [data-key="{key}"]', f"data-{axis}")
        low, high = map(float, shown.split())
        return low, high

    def box(self, key: str) -> dict[str, float]:
        """Where a picture's plane is."""
        plane = self.page.locator(f'#pictures [data-key="{key}"] .u-over').first
        plane.scroll_into_view_if_needed()
        where: dict[str, float] = plane.bounding_box()
        return where

    def drag(self, key: str, start: float, end: float) -> None:
        """Drags the mouse across a picture, from one share of its width to another."""
        at = self.box(key)
        y = at["y"] + at["height"] / 2
        self.page.mouse.move(at["x"] + start * at["width"], y)
        self.page.mouse.down()
        self.page.mouse.move(at["x"] + end * at["width"], y, steps=4)
        self.page.mouse.up()
