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

while read -r td; do
  name=$(sed -n 's/^ *let name = "\(.*\)";.*/\1/p' "$td" | head -n 1)
  ops=$(dirname "$td")/$(basename "$(dirname "$td")")Ops.td
  [ -f "$ops" ] || ops=$td
  generate "$ops" "$name-dialect" -gen-dialect-doc -dialect="$name"
done < <(git grep -lE '^def .*: Dialect' -- 'include/*.td')
say "wrote $(find "$out" -name '*.md' | wc -l) pages into $out"
