"""Hooks of MkDocs for the documentation site (`mkdocs.yml`). They build the navigation, rewrite
links, and convert GitHub's Markdown.

The navigation follows the list of pages in `docs/index.md`. It has a tab for each heading, and a
group for each line that ends with a colon. The pages of single algorithms are appended to the tab
"Reference".

Pages link to files outside `docs`. Markdown files among these become pages below `project/`. Other
files become text files below `source/`, and a folder becomes a page with a list of its files. Links
inside these pages are followed, too.
"""

from __future__ import annotations

import importlib
import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROJECT = ("README.md", "DESIGN.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
"""Pages of the repository that the navigation lists in the tab "Project"."""

ALGORITHMS = {"Congestion controls": "reference/cc", "Queue disciplines": "reference/queue"}
LINK = re.compile(
    r"(?P<before>\]\(|<img[^>]* src=\")(?P<path>[^)\s#:\"]+)(?P<fragment>#[^)\s\"]*)?(?=[)\"])"
)
FENCE = re.compile(r"^(?P<mark>```|~~~).*?^(?P=mark)\s*$", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)

Nav = list[dict[str, Any]]

_paths: dict[str, str] = {}
"""The repository file of each page that was added to the pages of `docs`, by the path of the page
on the site."""


def navigation(index: str, algorithms: dict[str, list[str]]) -> Nav:
    """Returns the navigation for MkDocs, from the text of `docs/index.md`."""
    nav: Nav = [{"Home": "index.md"}]
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        entries: Nav = []
        group = entries
        for line in body.splitlines():
            if label := re.fullmatch(r"([A-Z][^\[\]]*):", line):
                group = []
                entries.append({label[1]: group})
            elif link := re.match(r"- \[([^\]]+)\]\(([^)#]+\.md)\)", line):
                target = posixpath.normpath(posixpath.join("docs", link[2]))
                group.append({link[1]: uri(target)})
        if title == "Reference":
            entries += [{name: list(pages)} for name, pages in algorithms.items()]
        if title == "Project":
            listed = {path for entry in entries for path in entry.values()}
            names = {uri(page): page.removesuffix(".md") for page in PROJECT}
            entries += [{name.capitalize(): at} for at, name in names.items() if at not in listed]
        nav.append({title: entries})
    return nav


def uri(path: str) -> str:
    """Returns the path on the site of the repository file or folder at `path`."""
    if path.startswith("docs/"):
        page = path.removeprefix("docs/")
    elif path.endswith(".md"):
        page = f"project/{path}"
    else:
        page = f"source/{path}"
    if (ROOT / path).is_dir():
        return f"{page}/index.md"
    return f"{page}.txt" if page.startswith("source/") else page


def target(page: str, link: str) -> str | None:
    """Returns the repository file to which a link on a page leads; None if there is none."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    inside = not path.startswith(("..", "/")) and path != "."
    return path if inside and (ROOT / path).exists() else None


def linked(page: str) -> set[str]:
    """Returns the repository files to which the links of a page lead."""
    text = FENCE.sub("", source(page))
    found = {target(page, link["path"]) for link in LINK.finditer(text)}
    return {path for path in found if path}


def source(page: str) -> str:
    """Returns the Markdown of a page; for a folder, a list of its files."""
    if not (ROOT / page).is_dir():
        return (ROOT / page).read_text(encoding="utf-8")
    folder = posixpath.basename(page)
    names = sorted(at.name for at in (ROOT / page).iterdir() if at.is_file())
    return f"# {page}\n\n" + "".join(f"- [{name}]({folder}/{name})\n" for name in names)


def outside(pages: set[str]) -> set[str]:
    """Returns the files and folders outside of `docs`, and folders in it, that pages reach by
    links.
    """
    found: set[str] = set()
    fresh = pages | set(PROJECT)
    while fresh:
        found |= fresh
        readable = {page for page in fresh if page.endswith(".md") or (ROOT / page).is_dir()}
        fresh = {path for page in readable for path in linked(page)} - found
    return {path for path in found if not path.startswith("docs/") or (ROOT / path).is_dir()}


def convert(page: str, text: str) -> str:
    """Returns the Markdown of a page, converted for Python-Markdown and the site.

    Links are rewritten to pages of the site. A blank line replaces each comment, because a table
    after a comment needs one. Nested lists are indented by four columns instead of two.
    """
    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [rewrite(page, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, rewrite(page, text[end:])])


def rewrite(page: str, text: str) -> str:
    """Converts a part of a page that contains no code block."""

    def link(found: re.Match[str]) -> str:
        path = target(page, found["path"])
        if path is None:
            return found[0]
        relative = posixpath.relpath(uri(path), posixpath.dirname(uri(page)))
        return f"{found['before']}{relative}{found['fragment'] or ''}"

    return LINK.sub(link, COMMENT.sub("\n", indented(text)))


def indented(text: str) -> str:
    """Doubles the indentation of lines that belong to a list."""
    lines = []
    listed = False
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip(" "))
        if line and not indent:
            listed = bool(re.match(r"([-*]|\d+\.) ", line))
        lines.append(" " * indent * listed + line)
    return "\n".join(lines)


def on_config(config: Any) -> Any:  # noqa: ANN401 - MkDocs'
    """Hook of MkDocs: sets the navigation."""
    docs = Path(config.docs_dir)
    algorithms = {
        name: [str(page.relative_to(docs)) for page in sorted((docs / folder).glob("*.md"))]
        for name, folder in ALGORITHMS.items()
    }
    config.nav = navigation((docs / "index.md").read_text(encoding="utf-8"), algorithms)
    return config


def on_files(files: Any, config: Any) -> Any:  # noqa: ANN401 - MkDocs'
    """Hook of MkDocs: adds the files outside of `docs` that pages reach."""
    files_of = importlib.import_module("mkdocs.structure.files")  # only the site needs MkDocs
    File, InclusionLevel = files_of.File, files_of.InclusionLevel  # noqa: N806 - MkDocs' classes

    pages = {f"docs/{file.src_uri}" for file in files.documentation_pages()}
    for path in sorted(outside(pages)):
        at = uri(path)
        if at.endswith(".md"):
            file = File.generated(config, at, content=source(path))
        else:
            file = File.generated(config, at, abs_src_path=str(ROOT / path))
        file.inclusion = InclusionLevel.INCLUDED if path in PROJECT else InclusionLevel.NOT_IN_NAV
        _paths[at] = path
        files.append(file)
    return files


def on_page_markdown(text: str, page: Any, **_: Any) -> str:  # noqa: ANN401 - MkDocs'
    """Hook of MkDocs: converts the Markdown of a page."""
    at = page.file.src_uri
    return convert(_paths.get(at, f"docs/{at}"), text)
