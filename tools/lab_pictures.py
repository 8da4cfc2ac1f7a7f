"""Takes the screenshots of the lab for the documentation: `python -m tools.lab_pictures`.

It needs the lab (`make lab setup`), Chromium and Playwright. It writes `lab-light.png`,
`lab-dark.png`, `lab-phone.png` and the animation `lab.webp` to `docs/pictures`.
"""

from __future__ import annotations

import io
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from narrows.render import lab

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
SCENARIO = """\
title    = "BBR beside CUBIC"
duration = "30s"

[path]
rate   = "10Mbit"
rtt    = "40ms"
buffer = "1bdp"

[[flow]]
id = "bbr"
cc = "bbr"

[[flow]]
id = "cubic"
cc = "cubic"

[[probe]]
kind = "ping"
"""
FRAMES = 160
FRAME_MS = 125
"""Duration of a frame, in ms; all frames together last 20 s."""


def opened(browser: Browser, address: str, **context: Any) -> Page:  # noqa: ANN401
    """Opens the lab, and waits until it has run the scenario and shows packets."""
    page = browser.new_context(bypass_csp=True, **context).new_page()
    page.goto(f"{address}/{lab.fragment(SCENARIO)}")
    page.wait_for_function("window.lab?.json", timeout=120_000)
    page.wait_for_selector("canvas[data-packets]", timeout=120_000)
    page.wait_for_timeout(500)
    return page


def animation(page: Page) -> list[Image.Image]:
    """Takes the frames of an animation: moving packets, while the buffer size changes in steps."""
    frames = []
    slider = page.locator('input[type="range"][data-key="buffer"]').first
    page.select_option(".bar select", "0.01")
    page.get_by_role("button", name="Play").click()
    for number in range(FRAMES):
        if number in (40, 80, 120):
            # Twice the size: a tenth of the slider's three decades.
            slider.focus()
            page.keyboard.press("PageUp")
            page.wait_for_function("window.lab?.json", timeout=120_000)
        raw = page.screenshot()
        frames.append(Image.open(io.BytesIO(raw)).convert("RGB").resize((960, 600)))
        page.wait_for_timeout(40)
    return frames


def main() -> None:
    """Takes all screenshots and the animation, and prints their sizes."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - an optional package

    program = shutil.which("chromium") or shutil.which("chromium-browser")
    with lab.server() as server, sync_playwright() as playwright:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://localhost:{server.server_address[1]}"
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        desktop = {"width": 1280, "height": 800}
        contexts: dict[str, dict[str, Any]] = {
            "light": {"viewport": desktop},
            "dark": {"viewport": desktop, "color_scheme": "dark"},
            "phone": {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2},
        }
        for name, context in contexts.items():
            page = opened(browser, address, **context)
            page.screenshot(path=PICTURES / f"lab-{name}.png")
            page.context.close()
        page = opened(browser, address, viewport=desktop)
        first, *others = animation(page)
        first.save(
            PICTURES / "lab.webp",
            save_all=True,
            append_images=others,
            duration=FRAME_MS,
            loop=0,
            quality=45,
            method=4,
        )
        browser.close()
        server.shutdown()
    for name in ("lab-light.png", "lab-dark.png", "lab-phone.png", "lab.webp"):
        print(f"{name}: {(PICTURES / name).stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
