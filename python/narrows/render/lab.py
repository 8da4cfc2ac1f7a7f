"""The lab in the browser: a folder of static files, and a server of these files on the loopback
interface.

The folder `narrows/lab` is a build result (`make lab`), which a checkout does not contain. Any
static web host can serve the folder.
"""

from __future__ import annotations

import base64
import html
import json
import shutil
import zlib
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from narrows.errors import NarrowsError

FOLDER = Path(__file__).parents[1] / "lab"

POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; "
    "style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self' http://localhost:* http://127.0.0.1:*"
)
"""Content security policy: the page loads scripts only from its own server, and may compile
WebAssembly but not evaluate text as code."""

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".wasm": "application/wasm",
}


def folder() -> Path:
    """Returns the folder of the lab.

    Raises:
        NarrowsError: If this installation has no lab.
    """
    missing = [name for name in ("index.html", "engine.wasm") if not (FOLDER / name).is_file()]
    if missing:
        raise NarrowsError(
            f"this installation has no lab (missing: {', '.join(missing)})\n"
            "    write: make lab, in a checkout"
        )
    return FOLDER


def copy(into: Path) -> None:
    """Copies the lab to a folder, for a static web host.

    Raises:
        NarrowsError: If this installation has no lab, or the folder is not empty.
    """
    source = folder()
    if into.exists() and any(into.iterdir()):
        raise NarrowsError(f"{into}: the folder is not empty; write a new or an empty folder")
    shutil.copytree(source, into, dirs_exist_ok=True)


def fragment(text: str, files: dict[str, str] | None = None) -> str:
    """Returns the URL fragment that contains a scenario, in the format that the page uses."""
    shared: dict[str, Any] = {"text": text}
    if files:
        shared["files"] = files
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = packer.compress(json.dumps(shared).encode()) + packer.flush()
    return "#s=" + base64.urlsafe_b64encode(packed).decode().rstrip("=")


class _Handler(SimpleHTTPRequestHandler):
    """Serves the files of the folder, and nothing else."""

    protocol_version = "HTTP/1.1"
    extensions_map = _TYPES

    def __init__(self, *args: Any, **attributes: Any) -> None:  # noqa: ANN401 - the library's own
        super().__init__(*args, directory=str(FOLDER), **attributes)

    def _refused(self) -> bool:
        """Whether the request was refused: its Host header does not name localhost, as with a
        foreign name that resolves to this machine.
        """
        host = self.headers.get("Host", "").rsplit(":", 1)[0]
        if host in ("localhost", "127.0.0.1"):
            return False
        self.send_error(HTTPStatus.FORBIDDEN, "This server accepts requests from localhost only.")
        return True

    def do_GET(self) -> None:
        """Sends a file of the folder."""
        if not self._refused():
            super().do_GET()

    def do_HEAD(self) -> None:
        """Sends the headers of a file."""
        if not self._refused():
            super().do_HEAD()

    def list_directory(self, _path: Any) -> None:  # noqa: ANN401 - the library's own
        """Sends the status 404 instead of a list of the directory."""
        self.send_error(HTTPStatus.NOT_FOUND)

    def end_headers(self) -> None:
        """Adds the content security policy and other headers to every response."""
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, *_: Any) -> None:  # noqa: ANN401 - the library's own
        """Logs nothing, so that the terminal shows only the address."""


def server(port: int = 0) -> ThreadingHTTPServer:
    """Returns a server of the lab on the loopback interface; port 0 selects a free port.

    Raises:
        NarrowsError: If this installation has no lab, or the port is in use.
    """
    folder()
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), _Handler)
    except OSError as error:
        raise NarrowsError(f"--port {port}: {error.strerror}; choose another port") from error


class Widget:
    """The lab in a notebook: a frame with the page, which a server on the loopback interface
    offers.

    The server ends with the process of the notebook. This process has to run on the machine of the
    browser.
    """

    _server: ThreadingHTTPServer | None = None

    def __init__(self, text: str, files: dict[str, str], height: int) -> None:
        """Starts the server, unless another widget has started it."""
        if Widget._server is None:
            Widget._server = server()
            Thread(target=Widget._server.serve_forever, daemon=True).start()
        port = Widget._server.server_address[1]
        self.address = f"http://localhost:{port}/{fragment(text, files)}"
        self.height = height

    def _repr_html_(self) -> str:
        """The frame, as notebooks show it."""
        return (
            f'<iframe src="{html.escape(self.address)}" title="narrows lab" width="100%" '
            f'height="{self.height}" style="border: 0"></iframe>'
        )
