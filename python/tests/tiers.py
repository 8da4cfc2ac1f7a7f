"""The tier of each test, which `conftest.py` sets as its marker: `exact`, `docs` or `physical`.

`make test` runs `exact` and `docs` on every core; `make test-physical` runs `physical`, one test
after another. A test is physical when it needs real packets, their time, a network namespace, a
user-mode kernel or a browser. Everything else is exact: it gives the same result on a machine as
busy as can be, and beside any other exact test.
"""

from __future__ import annotations

from pathlib import Path

import pytest

FILES = frozenset(
    {
        "test_board_echo.py", "test_interrupt.py", "test_ipv6.py", "test_kernel_echo.py",
        "test_kernel_machine.py",
        "test_latency.py", "test_latency_hostile.py", "test_latency_policies.py", "test_live.py",
        "test_live_wifi.py",
        "test_measure_far_end.py", "test_measure_live.py", "test_measure_web.py", "test_serve.py",
        "test_serve_confined.py", "test_serve_crowd.py", "test_serve_limits.py",
        "test_serve_slow.py", "test_shell.py", "test_terminal_servers.py",
        "test_tune_kernel.py", "test_tune_netns.py", "test_with.py",
    }
)  # fmt: skip
"""Every test in these files is physical."""

FIXTURES = frozenset({"browser", "space"})
"""So is every test that requests one of these."""

CALLS = frozenset({"chromium", "in_namespaces", "ready", "wire"})
"""And every test that calls one of these."""

TESTS = frozenset(
    {
        "test_agree.py::test_the_engines_agree_on_this_machine",
        "test_agree.py::test_what_the_doctor_says_has_a_cure_for_all_that_is_not_good",
        "test_files.py::test_iperf3_itself_is_read",
    }
)
"""And these."""

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
    requested = frozenset(getattr(item, "fixturenames", ()))
    physical = file in FILES or name in TESTS or requested & FIXTURES or called(item) & CALLS
    return "physical" if physical else "exact"
