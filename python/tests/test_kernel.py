"""`narrows kernel` and the engine `linux`, without a kernel: the source, the compiler and the
machine are small programs of the tests.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest
from click.testing import CliRunner
from conftest import TINY

import narrows as nw
from narrows.cli import main
from narrows.errors import EngineError, NarrowsError
from narrows.kernel import build, machine, model, options, source, store

MAKEFILE = """\
VERSION = 6
PATCHLEVEL = 12
SUBLEVEL = 9
allnoconfig:
\tcp $(KCONFIG_ALLCONFIG) .config
\techo CONFIG_HZ=1000 >> .config
linux:
\t@echo '  CC      one.o'
\t@echo '  CC      two.o'
\t@cat answer > linux
"""
KCONFIG = "config HZ\n\tint\n\tdefault 100\n\nconfig NR_CPUS\n\tint\n\tdefault 1\n"
RANDOM = (
    "ssize_t os_getrandom(void *buf, size_t len, unsigned int flags)\n{\n"
    "\treturn getrandom(buf, len, flags);\n}\n\nvoid other(void)\n{\n}\n"
)
POOL = (
    "void random_init_early(const char *command_line)\n{\n"
    "\t_mix_pool_bytes(command_line, strlen(command_line));\n}\n"
)
TUN = (
    "int tun_net_xmit(void)\n{\n\ttxq_trans_cond_update(queue);\n}\n"
    "void *tun_do_read(void)\n{\n\tif (!ptr) {\n\t\t/* Read frames from ring */\n\t}\n}\n"
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return store.folder()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """A source that builds at once."""
    tree = tmp_path / "linux-6.12.9"
    (tree / "arch/um/os-Linux").mkdir(parents=True)
    (tree / "Makefile").write_text(MAKEFILE, encoding="utf-8")
    (tree / "arch/um/Kconfig").write_text(KCONFIG, encoding="utf-8")
    (tree / "arch/um/os-Linux/util.c").write_text(RANDOM, encoding="utf-8")
    (tree / "drivers/net").mkdir(parents=True)
    (tree / "drivers/char").mkdir()
    (tree / "drivers/char/random.c").write_text(POOL, encoding="utf-8")
    (tree / "drivers/net/tun.c").write_text(TUN, encoding="utf-8")
    (tree / "answer").write_text("717\n", encoding="utf-8")
    packed = tmp_path / "linux-6.12.9.tar"
    with tarfile.open(packed, "w") as to:
        to.add(tree, arcname=tree.name)
    return packed


@pytest.fixture(autouse=True)
def no_strip(monkeypatch: pytest.MonkeyPatch) -> None:
    """The binary of the tests has no symbols; the tools need not be installed."""
    run = build._run

    def without(command: list[str], tree: Path, what: str, **more: str) -> None:
        if command[0] != "strip":
            run(command, tree, what, **more)

    monkeypatch.setattr(build, "_run", without)
    monkeypatch.setattr(build, "missing_tools", lambda *, patched: [])


def quiet(_done: float, _total: float, _text: str) -> None:
    """No progress."""


def test_the_configuration_has_each_option_once_and_reports_absent_ones() -> None:
    lines = options.text("6.12.117").splitlines()
    names = [line.partition("=")[0] for line in lines]
    assert len(names) == len(set(names))
    assert "CONFIG_UML_TIME_TRAVEL_SUPPORT=y" in lines
    assert "CONFIG_NET_SCH_CAKE=y" in lines
    assert "CONFIG_TCP_CONG_BBR=y" in lines
    whole = options.text("6.12.117") + "CONFIG_HZ=1000\n"
    assert options.missing(whole) == []
    assert options.missing(whole.replace("CONFIG_VETH=y", "# CONFIG_VETH is not set")) == [
        "CONFIG_VETH"
    ]
    assert options.missing(whole.replace("CONFIG_NET_SCH_DUALPI2=y\n", "")) == []
    assert options.missing(whole.replace("HZ=1000", "HZ=100")) == ["CONFIG_HZ"]
    never = whole.replace("CONFIG_PREEMPT_VOLUNTARY=y\n", "")
    assert options.missing(never) == ["CONFIG_PREEMPT_VOLUNTARY"]
    assert options.missing(f"{never}CONFIG_ARCH_NO_PREEMPT=y\n") == []
    assert "CONFIG_BLOCK=y" not in lines
    assert "CONFIG_BLOCK=y" in options.text("5.10.223").splitlines()


def test_a_change_of_older_releases_is_used_if_the_newer_text_is_missing(tmp_path: Path) -> None:
    older = options.Change("b", "old", "new", "the older effect")
    change = options.Change("a", "x", "y", "the effect", (older,))
    for name, text in (("a", "z"), ("b", "old")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert not build._changed(tmp_path, change)
    assert build._changed(tmp_path, older)
    assert (tmp_path / "b").read_text(encoding="utf-8") == "new"
    assert (tmp_path / "a").read_text(encoding="utf-8") == "z"
    assert "old" in change.text()


@pytest.mark.parametrize("change", options.CHANGES, ids=lambda change: change.why)
def test_changes_compile_as_regular_expressions(change: options.Change) -> None:
    for one in (change, *change.older):
        assert one.apply("no such text") is None


def test_changes_apply_once_or_not_at_all() -> None:
    hz, random, pool, closes, opens = options.CHANGES
    assert hz.apply(KCONFIG) == KCONFIG.replace("default 100\n", "default 1000\n")
    changed = random.apply(RANDOM)
    assert changed is not None
    assert "getrandom(buf, len, flags);" not in changed
    assert 'getenv("NARROWS_SEED")' in changed
    assert changed.endswith("void other(void)\n{\n}\n")
    assert random.apply("int main;") is None
    assert random.apply(RANDOM + RANDOM) is None
    assert pool.apply(POOL) == "void random_init_early(const char *command_line)\n{\n}\n"
    gate = closes.apply(TUN)
    assert gate is not None
    assert "netif_tx_stop_queue(queue);\n\ttxq_trans_cond_update(queue);\n" in gate
    assert opens.apply(gate) is not None


def test_a_key_depends_on_source_patches_and_their_order() -> None:
    keys = {
        store.key("a", []),
        store.key("b", []),
        store.key("a", ["x"]),
        store.key("a", ["x", "y"]),
        store.key("a", ["y", "x"]),
    }
    assert len(keys) == 5
    assert store.key("a", ["x"]) == store.key("a", ["x"])


def test_a_key_depends_on_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    before = store.key("a", [])
    monkeypatch.setattr(options, "REQUIRED", options.REQUIRED[1:])
    assert store.key("a", []) != before


def test_a_build_is_stored_and_not_repeated(archive: Path, cache: Path) -> None:
    seen: list[str] = []
    kernel, new = build.build(str(archive), [], lambda _done, _total, text: seen.append(text))
    assert new
    assert (kernel.name, kernel.release, kernel.patches) == ("6.12", "6.12.9", {})
    assert kernel.binary.read_text(encoding="utf-8") == "717\n"
    assert kernel.binary.stat().st_mode & stat.S_IXUSR
    assert seen[-2:] == ["compiling", "compiling"]
    assert not list((cache / "build").glob("tree-*"))
    again, new = build.build(str(archive), [], quiet)
    assert (again, new) == (kernel, False)
    assert store.find("6.12") == store.find(None) == store.find(kernel.key) == kernel


PATCH = "--- a/answer\n+++ b/answer\n@@ -1 +1 @@\n-717\n+819\n"
"""A patch of the archive."""


def test_a_patch_makes_another_kernel(archive: Path, tmp_path: Path) -> None:
    patch = tmp_path / "beta.patch"
    patch.write_text(PATCH, encoding="utf-8")
    plain, _ = build.build(str(archive), [], quiet)
    patched, _ = build.build(str(archive), [patch], quiet)
    assert patched.name == "6.12+beta"
    assert patched.key != plain.key
    assert patched.binary.read_text(encoding="utf-8") == "819\n"
    assert store.find(None) == plain
    assert store.find("6.12+beta") == patched
    listed = {release.name: release for release in model.releases()}
    assert listed["6.12"].kernels == (plain, patched)
    assert listed["6.12"].modelled
    assert listed["7.3"].modelled
    assert not listed["7.3"].kernels
    assert listed["6.12"].rules > listed["4.15"].rules > listed["4.4"].rules


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("Makefile", MAKEFILE.replace("VERSION = 6\n", ""), "contains no kernel release"),
        ("Makefile", MAKEFILE.replace("cat answer", "echo error: no answer; false"), "no answer"),
        ("Makefile", MAKEFILE.replace("HZ=1000", "HZ=250"), "does not support CONFIG_HZ"),
        ("arch/um/Kconfig", "config OTHER\n", "arch/um/Kconfig: narrows cannot change"),
    ],
)
def test_a_failed_build_leaves_no_tree(
    archive: Path, cache: Path, file: str, text: str, said: str
) -> None:
    tmp_path = archive.parent
    (tmp_path / "linux-6.12.9" / file).write_text(text, encoding="utf-8")
    with tarfile.open(archive, "w") as to:
        to.add(tmp_path / "linux-6.12.9", arcname="linux-6.12.9")
    with pytest.raises(EngineError, match=said):
        build.build(str(archive), [], quiet)
    assert not list((cache / "build").glob("tree-*"))
    assert store.built() == []


def test_an_interrupted_build_leaves_no_tree(archive: Path, cache: Path) -> None:
    def stop(done: float, _total: float, _text: str) -> None:
        if done > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build.build(str(archive), [], stop)
    assert not list((cache / "build").glob("tree-*"))
    assert store.built() == []


def test_a_patch_that_does_not_apply_is_an_error(archive: Path, tmp_path: Path) -> None:
    patch = tmp_path / "beta.patch"
    patch.write_text("--- a/answer\n+++ b/answer\n@@ -1 +1 @@\n-1\n+2\n", encoding="utf-8")
    with pytest.raises(EngineError, match=r"--patch .*beta.patch: the build failed"):
        build.build(str(archive), [patch], quiet)
    with pytest.raises(EngineError, match=r"--patch gone.patch: no such file"):
        build.build(str(archive), [Path("gone.patch")], quiet)


def test_an_invalid_patch_is_an_error_before_the_source_is_fetched(tmp_path: Path) -> None:
    patch = tmp_path / "answer.patch"
    patch.write_text("The answer is 42.\n", encoding="utf-8")
    with pytest.raises(EngineError, match=r"--patch .*answer.patch: is not a patch"):
        build.build("/no/such/archive.tar.xz", [patch], quiet)


def test_a_full_disk_is_an_error_before_the_build(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "LEAST_FREE", 1 << 60)
    with pytest.raises(EngineError, match=r"GB are free, and a build needs"):
        build.build(str(archive), [], quiet)


def test_missing_programs_are_reported_with_the_command_that_installs_them(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("PATH", "/nowhere")
    packages = build.missing_tools(patched=True)
    assert packages[:5] == ["make", "gcc", "binutils", "flex", "bison"]
    assert "patch" in packages
    with pytest.raises(EngineError, match=r"write sudo apt-get install make gcc binutils flex"):
        build.build(str(archive), [], quiet)


def test_an_unknown_archive_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"gone.tar.xz: there is no such archive; write a rel"):
        build.build(str(tmp_path / "gone.tar.xz"), [], quiet)


def test_a_file_of_another_kind_is_an_error_with_the_name_of_an_archive(tmp_path: Path) -> None:
    other = tmp_path / "s.toml"
    other.write_text("title = 1\n", encoding="utf-8")
    with pytest.raises(
        EngineError, match=r"s.toml: not a source archive; write .*linux-6.12.tar.xz"
    ):
        build.build(str(other), [], quiet)


def test_the_mirror_is_that_of_the_host(tmp_path: Path) -> None:
    assert source.mirror(tmp_path) == source.MIRROR
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (parts / "other.list").write_text("deb https://other.example/apt stable main\n")
    (parts / "zone.sources").write_text(
        "Types: deb\nURIs: http://mirror.example/debian/\nSuites: bookworm\n"
    )
    assert source.mirror(tmp_path) == "http://mirror.example/debian"


APT = """\
#!/bin/sh
echo "$0 $*" >> "$APT_LOG"
case "$*" in
*policy*)
    grep -qs backports "$XDG_CACHE_HOME/narrows/kernels/apt/sources.list" || exit 0
    printf 'linux-source-7.3:\\n  Installed: (none)\\n  Candidate: 7.3.4-1\\n' ;;
*download*) : > linux-source-7.3_7.3.4-1_all.deb ;;
*) exit 0 ;;
esac
"""
DPKG = """\
#!/bin/sh
mkdir -p "$3/usr/src"
echo archive > "$3/usr/src/linux-source-7.3.tar.xz"
"""


def test_a_release_of_another_suite_uses_a_private_apt_configuration(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("apt-get", APT), ("apt-cache", APT), ("dpkg-deb", DPKG)):
        (programs / name).write_text(text, encoding="utf-8")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("APT_LOG", str(tmp_path / "log"))
    found = source.of("7.3", lambda _text: None)
    assert found.origin == "linux-source-7.3 7.3.4-1"
    assert found.archive.read_text(encoding="utf-8") == "archive\n"
    assert found.archive.parent == cache / "sources"
    log = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    first, *others = log
    assert first.endswith("apt-cache policy linux-source-7.3")
    lists = cache / "apt"
    for line in others:
        assert f"Dir::Etc::SourceList={lists}/sources.list" in line
        assert f"Dir::State::Lists={lists}/lists" in line
        assert f"Dir::Cache::Archives={lists}/archives" in line
    suites = [line.split()[-2] for line in (lists / "sources.list").read_text().splitlines()]
    assert suites == ["trixie", "trixie-backports"]


def test_a_kernel_that_is_not_built_is_an_error_with_the_command(archive: Path) -> None:
    with pytest.raises(EngineError, match=r"--kernel 7.3: .*not built; write narrows kernel bui"):
        store.find("7.3")
    build.build(str(archive), [], quiet)
    with pytest.raises(EngineError, match=r"\(built: 6.12\); write narrows kernel build 7.3"):
        store.find("7.3")
    with pytest.raises(EngineError, match=r"write narrows kernel build 6.12 with its patches"):
        store.find("6.12+beta")
    with pytest.raises(EngineError, match=r"--kernel 7.3.1: .* write narrows kernel build 7.3$"):
        store.find("7.3.1")
    with pytest.raises(EngineError, match=r"write narrows kernel build RELEASE, such as 6.12$"):
        store.find("0123456789abcdef")


def test_a_kernel_of_another_version_is_an_error(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build.build(str(archive), [], quiet)
    monkeypatch.setattr(options, "OPTIONAL", ())
    assert not store.built()[0].current
    for name in (None, "6.12", store.built()[0].key):
        with pytest.raises(EngineError, match=r"built by another version .* build 6.12$"):
            store.find(name)


def test_a_patched_kernel_of_another_version_is_an_error_with_its_patches(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch = tmp_path / "beta.patch"
    patch.write_text(PATCH, encoding="utf-8")
    build.build(str(archive), [patch], quiet)
    monkeypatch.setattr(options, "OPTIONAL", ())
    for name in ("6.12+beta", store.built()[0].key):
        with pytest.raises(EngineError, match=r"build 6.12 --patch beta.patch$"):
            store.find(name)


def test_the_command_builds_lists_and_removes(archive: Path) -> None:
    run = CliRunner().invoke
    done = run(main, ["kernel", "build", str(archive)])
    assert (done.exit_code, "--engine linux --kernel 6.12" in done.output) == (0, True)
    listed = json.loads(run(main, ["kernel", "list", "--json"]).output)["releases"]
    (kernel,) = next(r["kernels"] for r in listed if r["release"] == "6.12")
    assert (kernel["name"], kernel["release"], kernel["current"]) == ("6.12", "6.12.9", True)
    table = run(main, ["kernel", "list"]).output
    assert "linux-6.12" in table
    assert "not built" in table
    assert run(main, ["kernel", "remove", "6.12"]).output == "6.12: removed\n"
    gone = run(main, ["kernel", "remove", "6.12"])
    assert (gone.exit_code, "(built: none)" in gone.output) == (2, True)
    assert store.built() == []


MACHINE = """\
#!/bin/sh
for word; do folder=$word; done
{body}
"""
PANIC = "echo 'Kernel panic - not syncing: Out of memory'; exit 1"
LOST = "printf 'run 2 0\\n{}' > $folder/stdout; echo 'flow cubic0: timed out' > $folder/stderr"


def become(kernel: store.Kernel, body: str) -> None:
    """Replaces the binary by a program that is started as a machine."""
    kernel.binary.write_text(MACHINE.replace("{body}", body), encoding="utf-8")
    kernel.binary.chmod(0o755)


@pytest.fixture
def kernel(archive: Path) -> Iterator[store.Kernel]:
    """A built kernel; at the end, no machine and no folder of a run is left."""
    made, _ = build.build(str(archive), [], quiet)
    yield made
    left = subprocess.run(
        ["pgrep", "-f", str(made.binary)], capture_output=True, text=True, check=False
    )
    assert not left.stdout


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (PANIC, r"^--engine linux: the kernel of the virtual machine stopped: Out of memory$"),
        ("echo 'ptrace failed, errno = 1'; exit 1", r"may not trace processes .*SYS_PTRACE$"),
        ("exit 3", r"the virtual machine ended early: without a message$"),
        ("kill -9 $$", r"the virtual machine ended early: signal 9 .* too little free memory$"),
        ("echo 2 > $folder/code; echo 'no cc' > $folder/stderr; : > $folder/stdout", r"^no cc$"),
        (LOST + "; echo 1 > $folder/code; : > $folder/stdout", r"^flow cubic0: timed out$"),
    ],
)
def test_a_machine_that_fails_is_an_error(
    kernel: store.Kernel, temporary: Path, body: str, said: str
) -> None:
    become(kernel, body)
    with pytest.raises(EngineError, match=said):
        nw.run(scenario(temporary), engine="linux")
    assert list(temporary.iterdir()) == [temporary / "tiny.toml"]


@pytest.mark.parametrize(
    "body", [PANIC, "echo 101 > $folder/code; : > $folder/stdout; : > $folder/stderr"]
)
def test_a_full_disk_is_the_reason_of_a_machine_that_failed(
    kernel: store.Kernel, temporary: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    become(kernel, body)

    def full(dir: Path) -> BinaryIO:  # noqa: A002 - the name of the parameter
        assert dir.is_dir()
        return Path("/dev/full").open("wb")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(EngineError, match=r"narrows-linux.*: no space left on device$"):
        nw.run(scenario(temporary), engine="linux")
    assert list(temporary.iterdir()) == [temporary / "tiny.toml"]


def scenario(folder: Path) -> Path:
    """A scenario file."""
    file = folder / "tiny.toml"
    file.write_text(TINY, encoding="utf-8")
    return file


@pytest.mark.parametrize("busy", ["while :; do :; done", "sh -c 'while :; do :; done'"])
def test_a_machine_without_progress_of_virtual_time_is_ended(
    kernel: store.Kernel, temporary: Path, monkeypatch: pytest.MonkeyPatch, busy: str
) -> None:
    monkeypatch.setattr(machine, "STALLED_S", 0.2)
    monkeypatch.setattr(machine, "_LOOK_S", 0.05)
    become(kernel, f"echo progress 0.1 2; {busy}")
    with pytest.raises(EngineError, match=r"virtual time did not advance for 0 s of processor"):
        nw.run(scenario(temporary), engine="linux")


def test_the_processes_of_a_machine_share_one_processor() -> None:
    # A shell that starts a process after a line of input.
    with subprocess.Popen(
        ["sh", "-c", "read line; nproc"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        machine.keep_on_one_processor(child.pid)
        assert child.communicate(b"go\n")[0] == b"1\n"
    # The process has ended.
    machine.keep_on_one_processor(child.pid)


def test_an_interrupted_run_leaves_nothing(kernel: store.Kernel, temporary: Path) -> None:
    def stop(_now: float, _end: float) -> None:
        raise KeyboardInterrupt

    become(kernel, "echo progress 0.1 2; sleep 60")
    with pytest.raises(KeyboardInterrupt):
        nw.run(scenario(temporary), engine="linux", progress=stop)
    assert list(temporary.iterdir()) == [temporary / "tiny.toml"]


def test_a_run_has_the_arguments_and_the_seed_of_the_scenario(
    kernel: store.Kernel, temporary: Path
) -> None:
    keep = temporary.parent
    become(kernel, f"cp $folder/arguments {keep}/; echo $NARROWS_SEED > {keep}/seed; exit 1")
    with pytest.raises(EngineError):
        nw.run(scenario(temporary), engine="linux", sample_interval="off", verdicts=3)
    words = (keep / "arguments").read_text(encoding="utf-8").split("\0")
    assert words[:4] == ["run", "-", "--name", str(temporary / "tiny.toml")]
    assert words[-2:] == ["--sample-interval", "off"]
    assert (keep / "seed").read_text(encoding="utf-8") == "7\n"
    with pytest.raises(EngineError):
        nw.run(scenario(temporary), engine="linux", seed=12)
    assert (keep / "seed").read_text(encoding="utf-8") == "12\n"


SHELL = """\
cat $folder/arguments > $folder/record; cat $folder/stdin > $folder/stdout
echo late >> $folder/stderr; echo 7 > $folder/code"""


def test_a_shell_has_the_streams_the_files_and_the_exit_code_of_its_program(
    kernel: store.Kernel, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    become(kernel, SHELL)
    record = temporary / "packets"
    words = ["shell", scenario(temporary), "--engine", "linux", "--record", record, "--", "cat"]
    done = CliRunner().invoke(main, [str(word) for word in words], input="typed\n")
    assert (done.exit_code, done.stdout, done.stderr) == (7, "typed\n", "late\n")
    given = record.read_text(encoding="utf-8").split("\0")
    assert given[:2] == ["shell", "--name"]
    assert given[-2:] == ["--", "cat"]
    monkeypatch.setattr(machine, "STALLED_S", 0.2)
    monkeypatch.setattr(machine, "_LOOK_S", 0.05)
    become(kernel, "while :; do :; done")
    done = CliRunner().invoke(main, [str(word) for word in words])
    assert done.exit_code == 2
    assert "because cat does not sleep" in done.stderr
    assert {file.name for file in temporary.iterdir()} == {"tiny.toml", "packets"}


def test_options_of_the_machine_need_the_engine(temporary: Path) -> None:
    file = str(scenario(temporary))
    for words in (["--kernel", "6.12"], ["--queues", "kernel"]):
        for command in (["run", file], ["shell", file]):
            done = CliRunner().invoke(main, [*command, *words])
            assert done.exit_code == 2
            assert "requires --engine linux" in done.stderr
    done = CliRunner().invoke(main, ["shell", file, "--engine", "linux"])
    assert (done.exit_code, "the program is missing" in done.stderr) == (2, True)


def test_the_wheel_contains_no_part_of_linux() -> None:
    target = Path(os.environ.get("CARGO_TARGET_DIR") or Path(__file__).parents[2] / "target")
    wheels = list((target / "wheels").glob("narrows-*.whl"))
    if not wheels:
        pytest.skip("no wheel is built: run make setup")
    with zipfile.ZipFile(wheels[0]) as wheel:
        contents = {name: wheel.read(name) for name in wheel.namelist()}
    programs = {name for name, data in contents.items() if data.startswith(b"\x7fELF")}
    assert {Path(name).name for name in programs} == {"narrows-host", "_core.abi3.so"}
    sources = {".c", ".h", ".S", ".patch", ".xz", ".deb", ".ko"}
    assert not [name for name in contents if Path(name).suffix in sources]
    licence = b"SPDX-License-Identifier: " + b"GPL"
    assert not [name for name, data in contents.items() if licence in data]
    assert not [name for name in programs if b"Linux version %s" in contents[name]]


def test_a_missing_permission_of_ptrace_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    yama = tmp_path / "ptrace_scope"
    for scope, user, may in (
        ("1", 1000, True),
        ("2", 0, True),
        ("2", 1000, False),
        ("3", 0, False),
    ):
        yama.write_text(scope, encoding="ascii")
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        if may:
            machine.check_ptrace(yama)
        else:
            with pytest.raises(EngineError, match=r"may not trace processes .*ptrace_scope=1"):
                machine.check_ptrace(yama)


def test_the_option_kernel_requires_the_engine() -> None:
    done = CliRunner().invoke(main, ["run", "x.toml", "--kernel", "6.12"])
    assert (done.exit_code, "--engine linux" in done.output) == (2, True)
    with pytest.raises(NarrowsError, match="has no kernel to select; write the engine `linux`"):
        nw.run("x.toml", engine="live", kernel="6.12")
