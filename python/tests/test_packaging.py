"""The packages of narrows-host, the workflows of the repository, and what both refer to."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import tomllib
from conftest import ROOT
from test_tune_script import shells

from narrows.host.live import HOST

OPENWRT = ROOT / "packaging/openwrt"
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"][
    "version"
]

# The functions of OpenWrt's rc.common and procd.sh. Each call of procd is a line of $STUBS/calls.
_PROCD = """
config_load() { [ "$1" = narrows ]; }
config_get() { eval "$1=\\"\\${option_$3:-\\${4:-}}\\""; }
config_get_bool() { config_get "$@"; }
for name in open_instance set_param close_instance add_reload_trigger; do
    eval "procd_$name() { call $name \\"\\$@\\"; }"
done
call() { printf '%s' "$1"; shift; [ $# = 0 ] || printf ' [%s]' "$@"; echo; }
"""


def started(sh: list[str], **options: str) -> list[str]:
    """The calls of procd when the init script starts with these options of /etc/config/narrows."""
    script = f"{_PROCD}\n. {OPENWRT}/files/narrows.init\nstart_service\nservice_triggers\n"
    environment = {f"option_{name}": value for name, value in options.items()}
    done = subprocess.run(
        [*sh, "-euc", script], env={"PATH": "/usr/bin:/bin"} | environment,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


@shells
def test_openwrt_starts_the_server_with_its_options(sh: list[str]) -> None:
    assert started(sh, enabled="1", port="5300", rate="50Mbit", token="a b") == [
        "open_instance",
        "set_param [command] [/usr/bin/narrows-host] [serve] [--port] [5300] [--rate] [50Mbit]",
        "set_param [env] [NARROWS_TOKEN=a b]",
        "set_param [respawn]",
        "set_param [stderr] [1]",
        "close_instance",
        "add_reload_trigger [narrows]",
    ]
    assert not any("TOKEN" in line for line in started(sh, enabled="1"))


@shells
def test_openwrt_starts_no_disabled_server(sh: list[str]) -> None:
    assert started(sh) == started(sh, enabled="0") == ["add_reload_trigger [narrows]"]


def test_the_command_of_the_init_script_is_one_of_the_program() -> None:
    known = subprocess.run([HOST, "serve", "--help"], capture_output=True, text=True, check=True)
    script = (OPENWRT / "files/narrows.init").read_text(encoding="utf-8")
    used = re.findall(r"--[a-z-]+", script)
    assert used
    assert [name for name in used if f"  {name} " not in known.stdout] == []
    assert "$NARROWS_TOKEN" in known.stdout


def test_the_options_of_the_configuration_are_those_of_the_init_script() -> None:
    declared = re.findall(
        r"option (\w+)", (OPENWRT / "files/narrows.config").read_text(encoding="utf-8")
    )
    script = (OPENWRT / "files/narrows.init").read_text(encoding="utf-8")
    assert sorted(declared) == sorted(re.findall(r"config_get(?:_bool)? (\w+) serve", script))


# Answers `get` by the file, deletes it, and records all input.
_UCI = """#!/bin/sh
[ "$1" = -q ] && shift
case $1 in
get) cat "$STUBS/rule" 2> /dev/null;;
batch) cat > "$STUBS/rule"; echo batch >> "$STUBS/calls";;
delete) rm "$STUBS/rule" && echo "delete $2" >> "$STUBS/calls";;
*) echo "$*" >> "$STUBS/calls";;
esac
"""


@pytest.fixture
def router(tmp_path: Path) -> Path:
    """A folder with the programs `uci` and `narrows-host` of a router."""
    (tmp_path / "uci").write_text(_UCI, encoding="utf-8")
    (tmp_path / "narrows-host").write_text(
        '#!/bin/sh\necho "$*" >> "$STUBS/calls"\n[ ! -e "$STUBS/fails" ]\n', encoding="utf-8"
    )
    for name in ("uci", "narrows-host"):
        (tmp_path / name).chmod(0o755)
    return tmp_path


def on(router: Path, words: list[str], **environment: str) -> tuple[int, list[str]]:
    """The exit code of a script on this router, and the calls of its programs."""
    calls = router / "calls"
    calls.write_text("", encoding="utf-8")
    path = f"{router}:/usr/bin:/bin"
    done = subprocess.run(
        words, env={"PATH": path, "STUBS": str(router)} | environment, check=False
    )
    return done.returncode, calls.read_text(encoding="utf-8").splitlines()


@shells
def test_openwrt_adds_its_disabled_firewall_rule_once(sh: list[str], router: Path) -> None:
    defaults = str(OPENWRT / "files/narrows.defaults")
    assert on(router, [*sh, defaults]) == (0, ["batch"])
    rule = (router / "rule").read_text(encoding="utf-8")
    assert "set firewall.narrows.enabled='0'" in rule
    port = re.search(r"port '(\d+)'", (OPENWRT / "files/narrows.config").read_text("utf-8"))
    assert port is not None
    assert f"set firewall.narrows.dest_port='{port[1]}'" in rule
    assert on(router, [*sh, defaults]) == (0, [])


@shells
def test_the_removal_on_openwrt_reverts_changes_and_removes_the_rule(
    sh: list[str], router: Path
) -> None:
    recipe = (OPENWRT / "Makefile").read_text(encoding="utf-8")
    found = re.search(r"^define Package/narrows-host/prerm\n(.*?)^endef$", recipe, re.M | re.S)
    assert found is not None
    assert "/var/lib/narrows/tune" in found[1]
    script = found[1].replace("$$", "$").replace("/var/lib/narrows", str(router))
    words = [*sh, "-c", script]
    rule = router / "rule"
    removed = ["delete firewall.narrows", "commit firewall"]

    assert on(router, words) == (0, [])
    rule.write_text("rule", encoding="utf-8")
    assert on(router, words, IPKG_INSTROOT="/build") == (0, [])
    assert on(router, words, PKG_UPGRADE="1") == (0, [])
    assert on(router, words) == (0, removed)

    rule.write_text("rule", encoding="utf-8")
    (router / "tune").mkdir()
    (router / "tune/journal").touch()
    (router / "fails").touch()
    assert on(router, words) == (1, ["tune revert"])
    assert rule.exists()
    (router / "fails").unlink()
    assert on(router, words) == (0, ["tune revert", *removed])


def test_the_recipe_of_openwrt_installs_its_files_and_has_the_version() -> None:
    recipe = (OPENWRT / "Makefile").read_text(encoding="utf-8")
    installed = set(re.findall(r"\./files/(\S+)", recipe))
    assert installed == {file.name for file in (OPENWRT / "files").iterdir()}
    assert f"PKG_VERSION:={VERSION}\n" in recipe
    profiles = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["profile"]
    profile = re.search(r"^CARGO_PKG_PROFILE:=(\w+)$", recipe, re.M)
    assert profile is not None
    assert profile[1] in profiles


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is missing")
def test_the_debian_package_has_its_files_and_is_reproducible(tmp_path: Path) -> None:
    build = [ROOT / "packaging/debian/build", "/bin/true", "amd64"]
    archives = []
    for name in ("a", "b"):
        subprocess.run([*build, tmp_path / name], check=True, capture_output=True)
        archives.append(next((tmp_path / name).iterdir()))
    assert archives[0].name == f"narrows-host_{VERSION}_amd64.deb"
    assert archives[0].read_bytes() == archives[1].read_bytes()
    listed = subprocess.run(
        ["dpkg-deb", "--contents", archives[0]], capture_output=True, text=True, check=True
    ).stdout
    files = {line.split()[-1] for line in listed.splitlines() if line[0] == "-"}
    assert files == {
        "./usr/bin/narrows-host",
        "./usr/lib/systemd/system/narrows-serve.service",
        "./usr/share/bash-completion/completions/narrows-host",
        "./usr/share/doc/narrows-host/NEWS.md.gz",
        "./usr/share/doc/narrows-host/changelog.gz",
        "./usr/share/doc/narrows-host/copyright",
        "./usr/share/man/man8/narrows-host.8.gz",
    }
    assert {line.split()[1] for line in listed.splitlines()} == {"root/root"}


def test_workflows_call_only_the_scripts_of_the_repository() -> None:
    allowed = {".ci/run", "make nightly", "make dist"}
    toolchain = "rustup toolchain install nightly --component rust-src"
    found = set()
    for workflow in (ROOT / ".github/workflows").glob("*.yml"):
        text = workflow.read_text(encoding="utf-8")
        assert "permissions:\n  contents: read\n" in text, workflow.name
        assert "timeout-minutes:" in text, workflow.name
        found |= set(re.findall(r"\brun: (.*)", text))
    assert found == allowed | {toolchain}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in found - {toolchain, ".ci/run"}:
        assert re.search(rf"^{command.removeprefix('make ')}:", makefile, re.M), command
    assert os.access(ROOT / ".ci/run", os.X_OK)


def test_dependency_updates_name_every_lock_file() -> None:
    text = (ROOT / ".github/dependabot.yml").read_text(encoding="utf-8")
    listed = subprocess.run(
        ["git", "ls-files", "*Cargo.lock", "*package-lock.json"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    ).stdout.split()  # fmt: skip
    if not listed:
        pytest.skip("not a checkout of git")
    folders = {f"/{Path(file).parent}".removesuffix("/.") or "/" for file in listed}
    # The versions of adapters/earlier have known faults and stay.
    folders.remove("/adapters/earlier")
    assert folders == {"/", "/adapters", "/fuzz", "/web"}
    assert [folder for folder in folders if f'"{folder}"' not in text] == []


def test_the_version_is_stated_once_or_equal() -> None:
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"version: {VERSION}\n" in cited
    assert 'name: "The narrows developers"' in cited


def test_the_readme_of_the_package_lists_its_extras() -> None:
    project = tomllib.loads((ROOT / "python/pyproject.toml").read_text(encoding="utf-8"))["project"]
    readme = (ROOT / "python" / project["readme"]).read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `narrows\[(\w+)\]`", readme, re.M))
    extras = set(project["optional-dependencies"])
    assert rows == extras
    assert project["optional-dependencies"]["all"] == [
        f"narrows[{','.join(name for name in project['optional-dependencies'] if name != 'all')}]"
    ]
    for pattern in project["license-files"]:
        assert list((ROOT / "python").glob(pattern))
