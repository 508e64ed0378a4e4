#!/usr/bin/env bash
# Runs all tests by ctest: lit, GoogleTest, pytest. Options go to ctest:
#
#   scripts/test.sh -R lit        only tests whose name contains "lit"
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh
# XLA's part of it has no bound of its own (test/CMakeLists.txt).
if [ "$(du -sm build/test/kept-xla 2>/dev/null | cut -f1)" -gt 1024 ] 2>/dev/null; then
  rm -rf build/test/kept-xla
fi
say "running the tests (ctest)"
exec ctest --test-dir build --output-on-failure -j "$(nproc)" "$@"
