"""The command `narrows lab`."""

from __future__ import annotations

import webbrowser
from contextlib import suppress
from pathlib import Path

import click

from narrows import _core
from narrows.cli.command import argument, command, option
from narrows.render import lab as page
from narrows.render.terminal import console
from narrows.storage import untrusted_input


@command(
    "narrows lab",
    "narrows lab scenarios/buffers/bloat.toml",
    "narrows lab --no-browser --port 8000",
    "narrows lab --copy-to public/lab",
)
@argument(
    "scenario",
    metavar="[SCENARIO]",
    required=False,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Scenario file that the lab opens",
)
@option(
    "--port",
    group="Server",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    default=0,
    show_default="a free port",
    help="Port on the loopback interface",
)
@option(
    "--no-browser",
    group="Server",
    is_flag=True,
    help="Print the address and open no browser",
)
@option(
    "--copy-to",
    "into",
    group="Output",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Copy the files of the lab to FOLDER for a static web host, and start no server",
)
def lab(scenario: Path | None, port: int, no_browser: bool, into: Path | None) -> None:
    """Open the lab, an interactive simulation, in a browser.

    In the lab, you change a scenario and watch its packets and its metrics.
    """
    if into is not None:
        if scenario is not None:
            raise click.BadParameter(
                "copies the lab without a scenario; omit SCENARIO", param_hint="--copy-to"
            )
        page.copy(into)
        console().print(f"The lab is in {into}.", highlight=False)
        return
    fragment = ""
    if scenario is not None:
        raw = untrusted_input.read(scenario, untrusted_input.MOST_TRACE_BYTES)
        text = raw.decode("utf-8", "replace")
        fragment = page.fragment(text, _core.scenario_files(text, str(scenario)))
    with page.server(port) as server:
        address = f"http://localhost:{server.server_address[1]}/{fragment}"
        console().print(f"The lab is at {address}", highlight=False, soft_wrap=True)
        console().print("Stop it with Ctrl-C.", highlight=False)
        if not no_browser:
            webbrowser.open(address)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
