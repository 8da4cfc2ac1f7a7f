"""The lab in a notebook, as a widget of anywidget.

The widget passes the files of the lab to the browser, so it needs no server. The notebook may run
on another machine than the browser. `scenario` is the text of the scenario in both directions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from narrows.render.lab import folder, fragment

_FILES = ("lab.js", "lab.css", "worker.js", "engine.wasm", "scenarios.json")


def widget(text: str, files: dict[str, str], height: int) -> Any | None:  # noqa: ANN401
    """Returns a widget with the lab and this scenario, or None if anywidget is not installed.

    Args:
        text: The scenario in TOML.
        files: The contents of the files that the scenario names.
        height: Height in pixels.

    Raises:
        NarrowsError: If this installation has no lab.
    """
    source = folder()
    try:
        import anywidget  # noqa: PLC0415 - an optional package
        import traitlets  # noqa: PLC0415
    except ImportError:
        return None
    kept = Path(__file__).with_name("notebook.js")
    members = {
        "__doc__": "The lab. Its trait `scenario` is the scenario that the page shows, in TOML.",
        "_esm": kept.read_text(encoding="utf-8"),
        "_files": traitlets.Dict().tag(sync=True),
        "_shared": traitlets.Unicode().tag(sync=True),
        "scenario": traitlets.Unicode().tag(sync=True),
        "height": traitlets.Int().tag(sync=True),
    }
    return type("Lab", (anywidget.AnyWidget,), members)(
        _files={name: (source / name).read_bytes() for name in _FILES},
        _shared=fragment(text, files),
        scenario=text,
        height=height,
    )
