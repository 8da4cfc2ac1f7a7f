"""Builds the wheel of a release: link-time optimisation over all crates, and optimisation guided by
a profile of real runs.

    python -m tools.optimized INTO

The steps are:

1. Build the package with counters (`-Cprofile-generate`).
2. Run every scenario of `scenarios/` and `bench/scenarios/`, and the scenarios of `CROWDS`.
3. Build the package with the counts of these runs (`-Cprofile-use`), and write the wheel to INTO.

The wheel computes the same results as that of `make setup`; `python -m validation.digest` compares
them. Step 2 needs `llvm-profdata` of the LLVM version of the compiler, which
`rustup component add llvm-tools` installs. Without it, the wheel has link-time optimisation only.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "optimized-wheel"
CROWDS = {
    "cubic-100": ("cubic", 100, "1Gbit", "20ms", "5s"),
    "bbr-100": ("bbr", 100, "1Gbit", "20ms", "3s"),
    "cubic-2000": ("cubic", 2000, "4Gbit", "50ms", "3s"),
}
"""Generated scenarios with many flows: congestion control, flows, rate, RTT and duration."""
TRAIN = """
import sys
import narrows as nw
for name in sys.argv[1:]:
    nw.run(name)
"""


def profdata() -> str | None:
    """The path of an `llvm-profdata` that reads profiles of this compiler, if there is one."""
    compiler = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    sysroot = subprocess.run(
        ["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True
    ).stdout.strip()
    own = sorted(Path(sysroot).glob("lib/rustlib/*/bin/llvm-profdata"))
    if own:
        return str(own[0])
    version = re.search(r"LLVM version: (\d+)", compiler)
    return shutil.which(f"llvm-profdata-{version[1]}") if version else None


def build(into: Path, target: Path, flags: str) -> Path:
    """Builds a wheel with the Cargo profile `optimized` and these flags, and returns its path."""
    into.mkdir(parents=True, exist_ok=True)
    for old in into.glob("*.whl"):
        old.unlink()
    subprocess.run(
        [
            *(Path(sys.executable).parent / "maturin", "build", "--quiet", "--locked"),
            *("--profile", "optimized", "--manifest-path", "python/bindings/Cargo.toml"),
            *("--interpreter", sys.executable, "--out", into),
        ],
        cwd=ROOT,
        env=os.environ | {"RUSTFLAGS": flags, "CARGO_TARGET_DIR": str(target)},
        check=True,
    )
    return next(into.glob("*.whl"))


def scenarios() -> list[str]:
    """The files of the training runs."""
    files = [*sorted(ROOT.glob("bench/scenarios/*.toml")), *sorted(ROOT.glob("scenarios/*/*.toml"))]
    for name, (cc, flows, rate, rtt, duration) in CROWDS.items():
        file = BUILD / f"{name}.toml"
        file.write_text(
            f'duration = "{duration}"\n[path]\nrate = "{rate}"\nrtt = "{rtt}"\n'
            f'buffer = "1bdp"\n[[flow]]\ncc = "{cc}"\ncount = {flows}\n',
            encoding="utf-8",
        )
        files.append(file)
    return [str(file) for file in files]


def train(wheel: Path, counts: Path, files: Sequence[str]) -> None:
    """Installs the wheel with counters in a directory of its own and runs these scenarios."""
    site = BUILD / "site"
    shutil.rmtree(site, ignore_errors=True)
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"),
            *("--target", site, wheel),
        ],
        check=True,
    )
    shutil.rmtree(counts, ignore_errors=True)
    counts.mkdir(parents=True)
    environment = os.environ | {
        "PYTHONPATH": str(site),
        "LLVM_PROFILE_FILE": str(counts / "%p.profraw"),
    }
    done = subprocess.run(
        [sys.executable, "-c", TRAIN, *files], env=environment, cwd=ROOT, check=False
    )
    if done.returncode:
        sys.exit("optimized: a training run failed")


def main(arguments: list[str]) -> int:
    """Builds the wheel and prints its path."""
    if len(arguments) != 1:
        print("usage: python -m tools.optimized INTO", file=sys.stderr)
        return 2
    into = Path(arguments[0])
    BUILD.mkdir(parents=True, exist_ok=True)
    tool = profdata()
    flags = ""
    if tool is None:
        print(
            "optimized: no profile, because llvm-profdata of this compiler is missing: "
            "`rustup component add llvm-tools` installs it",
            file=sys.stderr,
        )
    else:
        print("optimized: building with counters", file=sys.stderr)
        counts = BUILD / "counts"
        wheel = build(BUILD / "counting", BUILD / "build-counting", f"-Cprofile-generate={counts}")
        files = scenarios()
        print(f"optimized: running {len(files)} scenarios", file=sys.stderr)
        train(wheel, counts, files)
        merged = BUILD / "merged.profdata"
        subprocess.run([tool, "merge", "-o", merged, *counts.glob("*.profraw")], check=True)
        flags = f"-Cprofile-use={merged}"
    print("optimized: building the wheel", file=sys.stderr)
    print(build(into, BUILD / "build", flags))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
