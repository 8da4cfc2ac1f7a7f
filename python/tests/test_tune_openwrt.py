"""The plan of a shaper on OpenWrt, by its packages and its configuration."""

from __future__ import annotations

import dataclasses
from pathlib import Path as File

import pytest
from test_tune import read
from test_tune_script import in_namespaces, shells

from narrows.errors import NarrowsError
from narrows.tune.plan import Ask, Plan
from narrows.tune.planner import plan
from narrows.tune.script import script as shell_script


@shells
def test_a_shaper_on_openwrt_by_opkg_and_uci(sh: list[str], tmp_path: File) -> None:
    asked = Ask(sqm="eth0", down_kbit=90_000, up_kbit=18_000, install=True)
    made = plan(read("openwrt-23.05"), asked).json()
    assert [c["id"] for c in made["changes"]][:3] == [
        "package:kmod-sched-cake",
        "package:sqm-scripts",
        "uci:sqm.narrows",
    ]
    assert (
        plan(read("openwrt-23.05"), dataclasses.replace(asked, install=False)).json()["changes"]
        == []
    )
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    for name, text in (("uci", _UCI), ("opkg", _OPKG)):
        (stubs / name).write_text(text, encoding="utf-8")
        (stubs / name).chmod(0o755)
    (stubs / "sqm").write_text('#!/bin/sh\necho "$1" >> $STUBS/calls\n', encoding="utf-8")
    (stubs / "sqm").chmod(0o755)
    (tmp_path / "sqm.sh").write_text(shell_script(Plan.of(made)), encoding="utf-8")
    run = f"{' '.join(sh)} {tmp_path}/sqm.sh"
    out = in_namespaces(
        "mount -t tmpfs none /etc/init.d; cp $STUBS/sqm /etc/init.d/sqm; PATH=$STUBS:$PATH\n"
        f"{run} apply\n{run} verify\n{run} apply > $STUBS/again\nsort $STUBS/uci.db\ncat "
        "$STUBS/opkg.db $STUBS/calls\n"
        f"{run} revert > /dev/null\ncat $STUBS/uci.db $STUBS/opkg.db; tail -n 1 $STUBS/calls\n",
        STUBS=str(stubs),
    )
    done = out.partition("all changes are in effect\n")[2]
    assert done.splitlines() == [
        "sqm.narrows.download=90000", "sqm.narrows.enabled=1", "sqm.narrows.interface=eth0",
        "sqm.narrows.qdisc=cake",
        "sqm.narrows.script=piece_of_cake.qos", "sqm.narrows.upload=18000", "sqm.narrows=queue",
        "kmod-sched-cake", "sqm-scripts", "enable", "restart", "restart",
    ]  # fmt: skip
    assert (stubs / "again").read_text(encoding="utf-8").count("already in effect") == len(
        made["changes"]
    )


def test_a_shaper_is_openwrts() -> None:
    with pytest.raises(NarrowsError, match="is for OpenWrt's shaper"):
        plan(read("debian-12"), Ask(sqm="ens18", down_kbit=1, up_kbit=1))
    with pytest.raises(NarrowsError, match="belong together"):
        plan(read("openwrt-23.05"), Ask(sqm="eth0"))
    own = ("@ files packages\n", "@ files sqm\n|etc/config/sqm:config queue\n@ files packages\n")
    made = plan(
        read("openwrt-23.05", own), Ask(sqm="eth0", down_kbit=1000, up_kbit=1000, install=True)
    )
    assert [c["kind"] for c in made.json()["changes"] if c["kind"] == "uci"] == []
    assert made.left[0].what == "/etc/config/sqm"


_UCI = """#!/bin/sh
# As much of uci as a plan uses: a file of `key=value`.
file=$STUBS/uci.db
touch "$file"
[ "$1" = -q ] && shift
case $1 in
  get) sed -n "s/^$2=//p" "$file" | grep . ;;
  set) k=${2%%=*}; grep -v "^$k=" "$file" > "$file.new"; echo "$2" >> "$file.new"
       mv "$file.new" "$file" ;;
  delete) grep -v "^$2[.=]" "$file" > "$file.new"; mv "$file.new" "$file" ;;
  commit) ;;
  *) exit 1 ;;
esac
"""

_OPKG = """#!/bin/sh
file=$STUBS/opkg.db
touch "$file"
case $1 in
  update) ;;
  list-installed) sed 's/$/ - 1/' "$file" ;;
  install) echo "$2" >> "$file" ;;
  remove) grep -v "^$2$" "$file" > "$file.new"; mv "$file.new" "$file" ;;
esac
"""
