#!/usr/bin/env bash
# Writes the man pages of the programs, and their completion for shells:
#
#   scripts/man.sh [BIN] [OUT]    from the programs in BIN (build/bin) into OUT (build/share)
#
# The options' one list is what a program prints for --help. help2man reads it here, and the
# completion at each TAB.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh
bin=$(realpath "${1:-build/bin}")
out=${2:-build/share}
command -v help2man >/dev/null ||
  fail "help2man, which writes the man pages, is missing" "Run: make setup"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
# LLVM's headings, and its dashes between an option and its text, as GNU's --help writes them. A
# dash touches an option's name that is as wide as the column.
gnu='s/^OVERVIEW: //; s/^(USAGE|usage): /Usage: /; s/^OPTIONS:$/Options:/
s/^( +[-=][^ ]+( [^ ]+)?) *- +/\1    /; s/^( +--[^ ]+)-   /\1   /'
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$out/man/man1" "$out/bash-completion/completions"

# page PROGRAM SUMMARY writes one page. argparse breaks its usage at COLUMNS, which would end it.
page() {
  [ -x "$bin/$1" ] || return 0
  printf '#!/bin/bash\nset -o pipefail\nCOLUMNS=2000 %q "$@" | sed -E %q\n' "$bin/$1" "$gnu" \
    >"$scratch/$1"
  chmod +x "$scratch/$1"
  logged "man-$1" help2man --no-info --manual Scalify --name "$2" --version-string "$version" \
    --output "$out/man/man1/$1.1" "$scratch/$1"
  [ "$1" = scalify ] || ln -sf scalify "$out/bash-completion/completions/$1"
}

page scalify "compile training steps to low precision, and run them"
page scalify-opt "run passes of Scalify's compiler on StableHLO text"
page scalify-compile "compile a training step from StableHLO text to an artefact"
page scalify-run "run an artefact on tensors from a file"
page scalify-plan "predict a training step's time and memory on GPUs"
install -m 644 scripts/completion.bash "$out/bash-completion/completions/scalify"
say "wrote $(find "$out/man" -name '*.1' | wc -l) man pages and the completion into $out"
