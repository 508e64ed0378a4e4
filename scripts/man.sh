#!/usr/bin/env bash
# Writes the man pages of the programs, and their completion for shells:
#
#   scripts/man.sh [BIN [OUT [PROGRAM...]]]
#
# from the programs in BIN (build/bin), all of them by default, into OUT (build/share). CMake's
# install rules run it too (cmake/Man.cmake). The options' one list is what a program prints for
# --help. help2man reads it here, and the completion at each TAB.
set -euo pipefail
bin=$(realpath "${1:-$(dirname "$0")/../build/bin}")
out=$(realpath -m "${2:-$(dirname "$0")/../build/share}")
programs=${*:3}
cd "$(dirname "$0")/.."
. scripts/common.sh
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
# LLVM's headings, and its dashes between an option and its text, as GNU's --help writes them. A
# dash touches an option's name that is as wide as the column.
gnu='s/^OVERVIEW: //; s/^(USAGE|usage): /Usage: /; s/^OPTIONS:$/Options:/
s/^( +[-=][^ ]+( [^ ]+)?) *- +/\1    /; s/^( +--[^ ]+)-   /\1   /'
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$out/man/man1" "$out/bash-completion/completions"
install -m 644 scripts/completion.bash "$out/bash-completion/completions/scalify"
command -v help2man >/dev/null ||
  fail "help2man, which writes the man pages, is missing" "Run: make setup"

# page PROGRAM SUMMARY writes one page. argparse breaks its usage at COLUMNS, which would end it.
page() {
  case " ${programs:-$1} " in *" $1 "*) ;; *) return 0 ;; esac
  [ -x "$bin/$1" ] || return 0
  [ "$1" = scalify ] || ln -sf scalify "$out/bash-completion/completions/$1"
  printf '#!/bin/bash\nset -o pipefail\nCOLUMNS=2000 %q "$@" | sed -E %q\n' "$bin/$1" "$gnu" \
    >"$scratch/$1"
  chmod +x "$scratch/$1"
  help2man --no-info --manual Scalify --name "$2" --version-string "$version" \
    --output "$out/man/man1/$1.1" "$scratch/$1" ||
    fail "no man page of $1: '$bin/$1 --help' failed"
}

page scalify "compile training steps to low precision, and run them"
page scalify-opt "run passes of Scalify's compiler on StableHLO text"
page scalify-compile "compile a training step from StableHLO text to an artefact"
page scalify-run "run an artefact on tensors from a file"
page scalify-plan "predict a training step's time and memory on GPUs"
say "wrote $(find "$out/man" -name '*.1' | wc -l) man pages and the completion into $out"
