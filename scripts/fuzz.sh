#!/usr/bin/env bash
# Runs the fuzz targets of fuzz/ one after another, ten minutes each, with one job at low priority.
#
#   scripts/fuzz.sh [-t SECONDS] [TARGET...]
#
# Targets: ArtefactFuzz, SafetensorsFuzz, MessageFuzz, ImportFuzz.
#
# Inputs that increase the coverage stay in out/fuzz/corpus, and what crashes, hangs, leaks or takes
# too much memory in out/fuzz/found. Exit status 1 if anything was found.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
export UBSAN_OPTIONS=print_stacktrace=1
seconds=600
if [ "${1:-}" = -t ]; then
  seconds=$2
  shift 2
fi
[ $# -gt 0 ] || set -- ArtefactFuzz SafetensorsFuzz MessageFuzz ImportFuzz

say "building $* in build-fuzz"
[ -f build-fuzz/build.ninja ] || logged configure-fuzz cmake --preset fuzz
logged build-fuzz nice ninja -C build-fuzz -j"${JOBS:-$(nproc)}" FuzzSeeds "$@"

seeds=out/fuzz/seeds found=out/fuzz/found failed=0
rm -rf "$seeds"
mkdir -p "$seeds" "$found"
build-fuzz/bin/FuzzSeeds "$seeds"
.venv/bin/python scripts/fuzz_seeds.py "$seeds/ImportFuzz"

for target in "$@"; do
  corpus=out/fuzz/corpus/$target
  mkdir -p "$corpus"
  say "$target: $seconds s (log in out/fuzz/$target.log)"
  # The messages about refused ranks are closed, not those of libFuzzer.
  nice -n 15 "build-fuzz/bin/$target" "$corpus" "$seeds/$target" -max_total_time="$seconds" \
    -max_len=12000 -timeout=30 -rss_limit_mb=3000 -close_fd_mask=2 -print_final_stats=1 \
    -artifact_prefix="$found/$target-" >"out/fuzz/$target.log" 2>&1 || failed=1
  tail -n 12 "out/fuzz/$target.log" | grep -E 'stat::number|Test unit|SUMMARY' || true
done
[ $failed = 0 ] || fail "inputs that fail are in $found"
