"""Man pages and completion have every option that a program prints for --help."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Of argparse's pairs, as "-h, --help", the longer.
OPTION = r"^ +(?:-., )?(--?[^\s=,]+)"
BIN = pathlib.Path(os.environ.get("SCALIFY_BUILD", ROOT / "build")) / "bin"


def options_of(program):
    """The words that begin with dashes and begin a line of --help.

    LLVM's dash before an option's text touches a name that is as wide as the column.
    """
    shown = subprocess.run([program, "--help"], check=True, capture_output=True, text=True).stdout
    return {one.rstrip("-") for one in re.findall(OPTION, shown, re.MULTILINE)}


def complete(*words, path=BIN, shell=("bash", "--norc")):
    """What the last word completes to."""
    script = """
      . scripts/completion.bash
      COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
      _scalify
      printf '%s\\n' "${COMPREPLY[@]}"
    """
    done = subprocess.run(
        [*shell, "-c", script, shell[0], *words],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{path}:{os.environ['PATH']}"},
    )
    assert not done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    "program", ["scalify-opt", "scalify-compile", "scalify-run", "scalify-plan"]
)
def test_options_complete(program):
    options = options_of(BIN / program)
    assert len(options) > 8
    if program == "scalify-opt":
        assert "--scalify-canonicalize-stablehlo" in options  # of that width
    assert set(complete(program, "-")) == options
    assert set(complete(program, "--he")) == {one for one in options if one.startswith("--he")}


def test_other_words_are_files():
    # Nothing of ours: `complete -o default` then completes names of files.
    assert complete("scalify-compile", "st") == []
    assert complete("scalify-no-such-program", "--") == []


def test_subcommands_complete(tmp_path):
    # A front door that lists two commands, of which one has options.
    front = tmp_path / "scalify"
    front.write_text(
        "#!/bin/sh\n"
        f'[ "$1" != run ] || exec "{BIN}/scalify-run" --help\n'
        'printf "usage: scalify COMMAND\\n\\n  plan      predicts\\n  run       runs\\n"\n'
    )
    front.chmod(0o755)
    assert complete("scalify", "", path=tmp_path) == ["plan", "run"]
    assert complete("scalify", "r", path=tmp_path) == ["run"]
    assert set(complete("scalify", "run", "-", path=tmp_path)) == options_of(BIN / "scalify-run")


@pytest.mark.skipif(not shutil.which("help2man"), reason="help2man is missing: make setup")
def test_pages_have_every_option(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    programs = ("scalify-compile", "scalify-run", "scalify-opt", "scalify-plan")
    for name in programs:
        (folder / name).symlink_to(BIN / name)
    command = [ROOT / "scripts" / "man.sh", folder, tmp_path / "share"]
    subprocess.run(command, check=True, stdout=sys.stderr)
    for name in programs:
        text = (tmp_path / "share" / "man" / "man1" / f"{name}.1").read_text()
        plain = re.sub(r"\\f.", "", text).replace("\\-", "-")
        missing = {one for one in options_of(BIN / name) if one not in plain}
        assert not missing, name
        # Headings are man's own; LLVM's would be text.
        assert not re.search(r"OVERVIEW:|USAGE:|usage:|^OPTIONS:", plain, re.MULTILINE)
        assert "SYNOPSIS" in plain
