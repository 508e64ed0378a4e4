#!/usr/bin/env bash
# Writes the reference of our dialects and passes, from the td files.
#
#   scripts/docs.sh FOLDER     pages FOLDER/passes/*.md and FOLDER/dialects/*.md
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh
tblgen=/usr/lib/llvm-22/bin/mlir-tblgen
out=$1
mkdir -p "$out/passes" "$out/dialects"

# generate TD PAGE TITLE FLAGS... writes one page with that title above mlir-tblgen's headings.
generate() {
  local td=$1 page=$2 title=$3 text
  shift 3
  text=$("$tblgen" "$@" -I include -I /usr/lib/llvm-22/include "$td") ||
    fail "mlir-tblgen could not read $td"
  { printf '# %s\n\n' "$title"; tail -n +2 <<<"$text" | sed -E "/^# '.*' Dialect$/d; /^\[TOC\]$/d"
  } >"$out/$page.md"
}

while read -r td; do
  stage=$(basename "$(dirname "$td")")
  generate "$td" "passes/${stage,,}" "Passes of $stage" -gen-pass-doc
done < <(git ls-files 'include/*Passes.td')

# A dialect's ops are in several files, by family: one page includes them all, after the file that
# defines the dialect, whose classes they use.
while read -r td; do
  name=$(sed -n 's/^ *let name = "\(.*\)";.*/\1/p' "$td" | head -n 1)
  umbrella=$out/$name.td
  for part in "$td" "$(dirname "$td")"/*.td; do
    case $part in *Passes.td | *Interface*.td) ;; *) echo "include \"${part#include/}\"" ;; esac
  done >"$umbrella"
  generate "$umbrella" "dialects/$name" "Dialect $name" -gen-dialect-doc -dialect="$name"
  rm "$umbrella"
done < <(git grep -lE '^def .*: Dialect' -- 'include/*.td')
