#!/usr/bin/env bash
# Writes the reference of our dialects and passes, from the td files, into build/docs.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh
tblgen=/usr/lib/llvm-22/bin/mlir-tblgen
out=build/docs
mkdir -p "$out"

# generate TD NAME FLAGS... writes one page.
generate() {
  local td=$1 name=$2
  shift 2
  logged "docs-$name" "$tblgen" "$@" -I include -I /usr/lib/llvm-22/include "$td" -o "$out/$name.md"
}

while read -r td; do
  stage=$(basename "$(dirname "$td")")
  generate "$td" "$stage-passes" -gen-pass-doc
done < <(git ls-files 'include/*Passes.td')

# A dialect's ops are in several files, by family: one page includes them all.
while read -r td; do
  name=$(sed -n 's/^ *let name = "\(.*\)";.*/\1/p' "$td" | head -n 1)
  folder=$(dirname "$td")
  umbrella=$out/$name.td
  for part in "$folder"/*.td; do
    case $part in *Passes.td | *Interface*.td) ;; *) echo "include \"${part#include/}\"" ;; esac
  done >"$umbrella"
  generate "$umbrella" "$name-dialect" -gen-dialect-doc -dialect="$name"
  rm "$umbrella"
done < <(git grep -lE '^def .*: Dialect' -- 'include/*.td')
say "wrote $(find "$out" -name '*.md' | wc -l) pages into $out"
