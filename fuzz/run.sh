#!/usr/bin/env bash
# Runs libFuzzer on every parser of untrusted input, SECONDS each, beginning with the corpora kept in fuzz/corpus.
# As many parsers run at the same time as the machine has processors.
# New inputs go to target/fuzz-corpus (of CARGO_TARGET_DIR, where that is set); `--keep` merges those that reach new code into fuzz/corpus. Usage: run.sh [SECONDS] [PARSER]
set -euo pipefail
cd "$(dirname "$0")/.."

keep=
if [[ "${1:-}" == --keep ]]; then
    keep=1
    shift
fi
seconds=${1:-10}
only=${2:-}

if ! rustup run nightly rustc --version > /dev/null 2>&1 || ! command -v cargo-fuzz > /dev/null; then
    echo 'fuzz: skipped: it needs the nightly toolchain and cargo-fuzz (rustup toolchain install nightly; cargo install cargo-fuzz --locked)'
    exit 0
fi
out=${CARGO_TARGET_DIR:-target}
# Named here, because cargo puts it elsewhere where CARGO_TARGET_DIR or a configuration says so.
build=${CARGO_TARGET_DIR:+$out/fuzz}
build=${build:-fuzz/target}
cargo +nightly fuzz build --fuzz-dir fuzz --target-dir "$build" parser
parser=$(find "$build" -path '*release/parser' -type f | head -n 1)
if [[ -z $parser ]]; then
    echo "fuzz: cargo-fuzz built nothing in $build"
    exit 1
fi
names=$(sed -n 's/^ *name: "\(.*\)",$/\1/p' host/src/parsers.rs)

# Fuzzes one parser.
fuzz() {
    local name=$1 kept=fuzz/corpus/$1 found=$out/fuzz-corpus/$1 cover=$out/fuzz-cover/$1
    mkdir -p "$kept" "$found"
    export NARROWS_PARSER=$name
    nice "$parser" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=2048 -max_len=70000 -print_final_stats=1 \
        -artifact_prefix="$out/fuzz-$name-" "$found" "$kept" > "$out/fuzz-$name.log" 2>&1 \
        || { tail -n 30 "$out/fuzz-$name.log"; echo "fuzz: $name failed; the input is $out/fuzz-$name-*"; return 1; }
    printf '%-10s %s executions, %s inputs in the corpus\n' "$name" \
        "$(sed -n 's/^stat::number_of_executed_units: *//p' "$out/fuzz-$name.log")" "$(find "$kept" "$found" -type f | wc -l)"
    [[ -n $keep ]] || return 0
    # The smallest set of inputs of at most 1 KiB that covers the same code, at most 40 of them.
    rm -rf "$cover" && mkdir -p "$cover"
    "$parser" -set_cover_merge=1 -max_len=1024 "$cover" "$kept" "$found" > /dev/null 2>&1 || return 1
    find "$kept" -type f ! -name 'valid-*' -delete
    find "$cover" -type f -printf '%s %p\n' | sort -n | head -n 40 | cut -d ' ' -f 2 | xargs -r cp -t "$kept"
}

failed=
running=0
for name in $names; do
    [[ -z $only || $only == "$name" ]] || continue
    if ((running == $(nproc))); then
        wait -n || failed=1
        running=$((running - 1))
    fi
    fuzz "$name" &
    running=$((running + 1))
done
while ((running > 0)); do
    wait -n || failed=1
    running=$((running - 1))
done
[[ -z $failed ]]
