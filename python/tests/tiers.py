"""The tier of each test, which `conftest.py` sets as its marker: `exact`, `docs`, `system` or
`physical`.

`make test` runs `exact` and `docs` on every core. `make test-physical` runs `system`, four tests
at a time, and then `physical`, one test after another. A test is physical if its result depends on
the time of real packets. It belongs to the system tier if it needs a network namespace, signals, a
user-mode kernel or a browser, but not their time: it waits more than it computes. Everything else
is exact: it gives the same result on any busy machine, and beside any other exact test.

A test that takes more than 20 seconds may also have the marker `long`. It has more cases than a
shorter test, or repeats the situation of another test for another command. Both commands exclude
it; `make test-long`, which is part of `make nightly`, runs it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

SYSTEM = frozenset(
    {
        "test_board_echo.py", "test_board_echo_lwip.py", "test_interrupt.py", "test_ipv6.py",
        "test_kernel_machine.py",
        "test_measure_far_end.py", "test_measure_web.py", "test_serve_confined.py",
        "test_serve_limits.py", "test_terminal_servers.py", "test_tune_kernel.py",
        "test_tune_netns.py", "test_with.py",
    }
)  # fmt: skip
"""Every test in these files belongs to the system tier."""

PHYSICAL = frozenset(
    {
        "test_interval_lines.py", "test_kernel_echo.py", "test_latency.py",
        "test_latency_hostile.py",
        "test_latency_policies.py", "test_live.py", "test_live_hosts.py", "test_live_links.py",
        "test_live_wifi.py", "test_measure_live.py", "test_measure_quic.py", "test_measure_udp.py",
        "test_one_way.py",
        "test_serve.py", "test_serve_crowd.py", "test_serve_slow.py", "test_shell.py",
    }
)  # fmt: skip
"""Every test in these files is physical, except those in `SYSTEM_TESTS`."""

SYSTEM_FIXTURES = frozenset({"browser", "space"})
"""Every other test that requests one of these belongs to the system tier."""

SYSTEM_CALLS = frozenset({"chromium", "in_namespaces"})
"""And so does every test that calls one of these."""

PHYSICAL_CALLS = frozenset({"ready", "wire"})
"""A test that calls one of these is physical."""

SYSTEM_TESTS = frozenset(
    {
        "test_files.py::test_the_output_of_iperf3_is_read",
        "test_measure_live.py::test_an_outage_before_the_first_load_keeps_the_idle_results",
        "test_measure_quic.py::test_a_server_without_a_handshake_gets_no_data",
    }
)
"""These belong to the system tier."""

PHYSICAL_TESTS = frozenset(
    {
        "test_agree.py::test_the_engines_agree_on_this_machine",
        "test_agree.py::test_doctor_proposes_a_remedy_for_every_finding_that_is_not_good",
    }
)
"""And so are these."""

DOCS = frozenset({"test_docs.py", "test_notebook.py"})
"""Every test in these files runs what the pages show."""


RENEWS = frozenset({"RENEW", "with_output", "with_parts"})
"""Every test that uses one of these compares a stored result, which `make renew` writes."""


def called(item: pytest.Item) -> frozenset[str]:
    """The names that the code of a test uses."""
    code = getattr(getattr(item, "function", None), "__code__", None)
    return frozenset(code.co_names) if code else frozenset()


def tier(item: pytest.Item) -> str:
    """The marker of a test."""
    file = Path(item.path).name
    if file in DOCS:
        return "docs"
    name = f"{file}::{getattr(item, 'originalname', item.name)}"
    requested, calls = frozenset(getattr(item, "fixturenames", ())), called(item)
    if name in SYSTEM_TESTS or file in SYSTEM:
        return "system"
    if file in PHYSICAL or name in PHYSICAL_TESTS or calls & PHYSICAL_CALLS:
        return "physical"
    return "system" if requested & SYSTEM_FIXTURES or calls & SYSTEM_CALLS else "exact"
