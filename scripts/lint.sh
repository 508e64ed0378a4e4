#!/usr/bin/env bash
# Checks layout, format, style and types.
#
#   scripts/lint.sh --quick          all but clang-tidy
#   scripts/lint.sh --all            clang-tidy checks every file again
#   scripts/lint.sh --seconds 0      no time limit for clang-tidy
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh
failed=0

# check NAME COMMAND... runs one check and continues after a failure, so that a run shows all.
check() {
  local name=$1 started=$SECONDS
  shift
  if "$@"; then
    say "lint: $name passed ($((SECONDS - started)) s)"
  else
    say "lint: $name FAILED"
    failed=1
  fi
}

sources() { git ls-files --cached --others --exclude-standard '*.cpp' '*.cc' '*.c' '*.h'; }

# Lists each misformatted file once; `make format` fixes them.
format() {
  local bad
  bad=$(sources | xargs -r clang-format-22 --dry-run -Werror 2>&1 |
    sed -nE 's/^([^ :]+):[0-9]+:.*clang-format-violations.*/\1/p' | sort -u)
  [ -z "$bad" ] || { echo "$bad"; return 1; }
}

check layout .venv/bin/python scripts/check_layout.py
check clang-format format
check ruff .venv/bin/ruff check --quiet .
check ruff-format .venv/bin/ruff format --quiet --check .

typed=()
for dir in python/scalify python/scalify_cli python/scalify_plan python/scalify_runtime examples/llama benchmarks integration scripts; do
  [ -z "$(git ls-files --cached --others --exclude-standard "$dir/*.py")" ] || typed+=("$dir")
done
check mypy .venv/bin/mypy "${typed[@]}"
[ "${1:-}" = --quick ] || check clang-tidy .venv/bin/python scripts/tidy.py "$@"
exit "$failed"
