#!/usr/bin/env bash
# Checks layout, format, style and types.
#
#   scripts/lint.sh --quick          all but clang-tidy
#   scripts/lint.sh --all            clang-tidy looks at every file again
#   scripts/lint.sh --seconds 0      clang-tidy takes the time that it needs
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh
failed=0

# check NAME COMMAND... runs one check and goes on, so that one run shows all faults.
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

# Names each file once; `make format` mends them.
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
for dir in python/scalify python/scalify_plan examples/llama benchmarks integration scripts; do
  [ -z "$(git ls-files --cached --others --exclude-standard "$dir/*.py")" ] || typed+=("$dir")
done
check mypy .venv/bin/mypy "${typed[@]}"
[ "${1:-}" = --quick ] || check clang-tidy .venv/bin/python scripts/tidy.py "$@"
exit "$failed"
