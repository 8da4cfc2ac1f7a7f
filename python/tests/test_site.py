"""The documentation site: its navigation and links (exact), and the built site in Chromium
(system).
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser import chromium
from conftest import ROOT
from tools import docs_site

if TYPE_CHECKING:
    from playwright.sync_api import Browser

INDEX = """# Title

## Tutorial

- [First run](tutorial/first-run.md): a path.

## Reference

Terms:

- [Glossary](reference/glossary.md): terms.

## Project

- [Performance](performance.md): speed.
- [Design](../DESIGN.md): modules.
"""


def test_the_navigation_is_the_list_of_the_home_page() -> None:
    nav = docs_site.navigation(INDEX, {"Queue disciplines": ["reference/queue/fq.md"]})
    assert nav[:3] == [
        {"Home": "index.md"},
        {"Tutorial": [{"First run": "tutorial/first-run.md"}]},
        {
            "Reference": [
                {"Terms": [{"Glossary": "reference/glossary.md"}]},
                {"Queue disciplines": ["reference/queue/fq.md"]},
            ]
        },
    ]
    project = [entry for entries in nav[3].values() for entry in entries]
    assert project[:2] == [{"Performance": "performance.md"}, {"Design": "project/DESIGN.md"}]
    assert {"Readme": "project/README.md"} in project
    assert {"Design": "project/DESIGN.md"} not in project[2:]


@pytest.mark.parametrize(
    ("page", "link", "becomes"),
    [
        ("docs/index.md", "(tutorial/first-run.md#run)", "(tutorial/first-run.md#run)"),
        ("docs/index.md", "(../README.md)", "(project/README.md)"),
        ("docs/tutorial/first-run.md", "(../../Makefile)", "(../source/Makefile.txt)"),
        (
            "docs/tutorial/first-run.md",
            "(../../scenarios/first)",
            "(../source/scenarios/first/index.md)",
        ),
        ("DESIGN.md", "(docs/index.md)", "(../index.md)"),
        ("DESIGN.md", "(CONTRIBUTING.md#tests)", "(CONTRIBUTING.md#tests)"),
        ("DESIGN.md", "(no-such-file.md)", "(no-such-file.md)"),
        ("DESIGN.md", "(https://example.org/)", "(https://example.org/)"),
    ],
)
def test_links_lead_to_pages_of_the_site(page: str, link: str, becomes: str) -> None:
    assert docs_site.convert(page, f"A [link]{link}.\n") == f"A [link]{becomes}.\n"


def test_code_stays_and_comments_before_tables_become_blank_lines() -> None:
    code = "```text\n  [a](../README.md) <!-- b -->\n```\n"
    text = f"- one\n  - two\n\nBut:\n\n    code\n\n{code}\n<!-- made: x -->\n| a |\n|---|\n"
    made = f"- one\n    - two\n\nBut:\n\n    code\n\n{code}\n\n\n| a |\n|---|\n"
    assert docs_site.convert("docs/index.md", text) == made


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:  # noqa: ANN401 - the server's
        """Nothing."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium."""
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site, which is built for this test."""
    pytest.importorskip("material", reason="MkDocs is not installed: `make docs` does it")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "--quiet", "build", "--site-dir", str(folder)]
    subprocess.run(
        [*command, "--config-file", "tools/mkdocs.yml"], cwd=ROOT, check=True,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    handler = functools.partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


class _Reader:
    """A browser's page, with all that went wrong on it and every address that it requested."""

    def __init__(self, browser: Browser, site: str, **context: Any) -> None:  # noqa: ANN401
        self.context = browser.new_context(**context)
        self.page = self.context.new_page()
        self.wrong: list[str] = []
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("console", lambda said: said.type == "error" and self.wrong.append(said.text))
        self.page.on(
            "request",
            lambda request: request.url.startswith(site) or self.wrong.append(request.url),
        )

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


def test_the_home_page_opens_and_leads_to_every_section(browser: Browser, site: str) -> None:
    with _Reader(browser, site, viewport={"width": 1300, "height": 900}) as reader:
        reader.page.goto(site)
        assert "narrows" in reader.page.inner_text("h1")
        tabs = reader.page.locator(".md-tabs__link")
        names = [name.strip() for name in tabs.all_inner_texts()]
        index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
        assert names == ["Home", *re.findall(r"^## (.+)$", index, re.MULTILINE)]
        assert {"Reference", "Explanation", "Project"} <= set(names)
        for name in names:
            reader.page.locator(".md-tabs__link", has_text=name).click()
            reader.page.wait_for_selector("article h1")
        reader.page.locator(".md-nav__link", has_text="Contributing").first.click()
        reader.page.wait_for_url("**/project/CONTRIBUTING.html")
        assert reader.wrong == []


def test_search_finds_an_algorithm(browser: Browser, site: str) -> None:
    with _Reader(browser, site, viewport={"width": 1300, "height": 900}) as reader:
        reader.page.goto(site)
        reader.page.click(".md-search__input")
        reader.page.keyboard.type("dualpi2")
        first = reader.page.locator(".md-search-result__link").first
        first.wait_for()
        first.click()
        reader.page.wait_for_url("**/*dualpi2*")
        assert reader.wrong == []


def test_pictures_load(browser: Browser, site: str) -> None:
    image = re.compile(r"^!\[", re.MULTILINE)
    shown = [page for page in ROOT.glob("docs/**/*.md") if image.search(page.read_text("utf-8"))]
    assert shown
    with _Reader(browser, site) as reader:
        for page in shown:
            reader.page.goto(site + str(page.relative_to(ROOT / "docs").with_suffix(".html")))
            images = reader.page.locator("article img")
            assert images.count() > 0
            widths = images.evaluate_all(
                "all => Promise.all(all.map(i => i.decode().then(() => i.naturalWidth)))"
            )
            assert all(width > 0 for width in widths)
        assert reader.wrong == []


def widest_pages() -> list[Path]:
    """Of every folder the two pages with the longest lines, which are those of tables and code."""
    pages = sorted(
        ROOT.glob("docs/**/*.md"),
        key=lambda page: -max(map(len, page.read_text("utf-8").splitlines())),
    )
    folders = sorted({page.parent for page in pages})
    return [
        page for folder in folders for page in [page for page in pages if page.parent == folder][:2]
    ]


def test_no_page_scrolls_sideways_on_a_phone(browser: Browser, site: str) -> None:
    with _Reader(browser, site, viewport={"width": 360, "height": 740}) as reader:
        wide = []
        for page in widest_pages():
            name = str(page.relative_to(ROOT / "docs").with_suffix(".html"))
            reader.page.goto(site + name, wait_until="domcontentloaded")
            if reader.page.evaluate("document.documentElement.scrollWidth") > 360:
                wide.append(name)
        assert wide == []
