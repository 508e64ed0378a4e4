#!/usr/bin/env bash
# Runs all tests by ctest: lit (twice), GoogleTest, pytest. Options go to ctest:
#
#   scripts/test.sh -R lit        only tests whose name contains "lit"
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh
say "running the tests (ctest)"
exec ctest --test-dir build --output-on-failure -j "$(nproc)" "$@"
