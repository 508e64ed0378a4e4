#!/usr/bin/env bash
# Builds with a sanitizer and runs tests. All must pass without a report.
#
#   scripts/sanitize.sh address     addresses, undefined behaviour and leaks: lit, GoogleTest
#   scripts/sanitize.sh thread      data races: thread pool, transports, ranks (GoogleTest)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 SCALIFY_FILL=nan
# Tests ask for memory that no machine has, and expect an error. Debian's LLVM has no sanitizer: it
# does not unpoison what the allocators in its headers, compiled here, have poisoned.
options=allocator_may_return_null=1:halt_on_error=1:allow_user_poisoning=0

# configure PRESET FOLDER
configure() { [ -f "$2/build.ninja" ] || logged "configure-$1" cmake --preset "$1"; }

address() {
  configure asan build-asan
  say "building build-asan (long: log in $logs/build-asan.log)"
  logged build-asan nice ninja -C build-asan -j"${JOBS:-$(nproc)}"
  export ASAN_OPTIONS=$options UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
  for tests in build-asan/bin/*Tests; do
    say "$tests"
    # Open MPI leaves memory of its own.
    "$tests" --gtest_brief=1 --gtest_filter="-CommMpi*:*CommExit*/mpi"
  done
  say "lit"
  "$(sed -n 's|^LLVM_DIR:PATH=\(.*\)/lib/cmake/llvm$|\1/bin/lit|p' build-asan/CMakeCache.txt)" \
    -sv --no-progress-bar build-asan/test
}

thread() {
  configure tsan build-tsan
  say "building build-tsan (log in $logs/build-tsan.log)"
  logged build-tsan nice ninja -C build-tsan -j"${JOBS:-$(nproc)}" RuntimeTests
  # Ranks of tests are also forked processes, some while threads run.
  TSAN_OPTIONS=halt_on_error=1:die_after_fork=0 build-tsan/bin/RuntimeTests --gtest_brief=1 \
    --gtest_filter='ThreadPool*:Comm*:*CommExit*:Overlap*:Ranks*:Nccl*:Run*-*CommExit*/mpi:CommMpi*'
}

case ${1:-} in
  address | thread) "$1" ;;
  *) fail "name the sanitizer: address or thread" ;;
esac
say "no report"
