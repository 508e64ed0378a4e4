"""Compiles many damaged programs whole; none may crash or hang, and each error has a text.

    make mutated ARGS="--programs 100000 --seed 3"

The programs are those of the lit tests. Types and sizes change wherever they stand in a program, so
that most results still verify and reach the later stages, tokens change as `test_malformed.py`
does. A child process compiles a few hundred, of different recipes and targets; what it dies of, or
takes more than `SECONDS` of a processor for, is kept in the folder out/mutated. Exits with 1 if
there is any.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

from test_malformed import ROOT, TOKEN, damage

FOLDERS = ("Import", "Dialect", "Scaling", "Precision", "Idioms", "Fusion", "Codegen", "Target")
SECONDS = 60
TYPES = ("f32", "f16", "bf16", "f64", "f8E4M3FN", "f8E5M2", "i1", "i8", "i32", "i64", "ui8", "ui32")
TYPES += ("complex<f32>", "i4")
SIZES = ("0", "1", "2", "3", "5", "8", "17", "64")
NUMBERS = ("0", "1", "2", "-1", "3", "7", "64", "4294967296", "9223372036854775807")
RECIPES = ("none", "fp8", "bf16", "fp16", "fp8-delayed", "fp8-lm-o2")
TARGETS = ("cpu", "cpu", "cpu", "sm_90a", "stablehlo")
_TYPE = r"(?<=[x<])(?:f\d+\w*|bf16|u?i\d+|complex<f\d+>)(?=[>,])"
_SIZE = r"(?<=[x<])\d+(?=x)"
_OF_ATTRIBUTE = r"(?<=\d : )(?:u?i\d+|f\d+|bf16)\b"
ATTRIBUTES = ("i64", "i32", "ui64", "ui8", "i1", "i128", "f32", "index")


def seeds() -> list[str]:
    """Returns the programs of the lit tests that have one of StableHLO."""
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / "test" / folder).rglob("*.mlir")):
            chunks = path.read_text().split("// -----\n")
            found += [one for one in chunks if "stablehlo." in one and len(one) < 20_000]
    return [re.sub(r"^\s*//.*\n", "", one, flags=re.MULTILINE) for one in found]


def _replace_all(text: str, pattern: str, words: tuple[str, ...], rng: random.Random) -> str:
    """Writes another word for one of the texts that match, everywhere."""
    known = sorted(set(re.findall(pattern, text)))
    if not known:
        return text
    old, new = rng.choice(known), rng.choice(words)
    return re.sub(pattern, lambda found: new if found[0] == old else found[0], text)


def _replace_one(text: str, pattern: str, words: tuple[str, ...], rng: random.Random) -> str:
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    at = rng.choice(found)
    return text[: at.start()] + rng.choice(words) + text[at.end() :]


def mutate(text: str, everything: list[str], rng: random.Random) -> str:
    """Returns a program with one to three changes."""
    for _ in range(rng.randint(1, 3)):
        kind = rng.randrange(9)
        if kind < 2:
            text = _replace_all(text, _TYPE, TYPES, rng)
        elif kind < 4:
            text = _replace_all(text, _SIZE, SIZES, rng)
        elif kind < 6:
            text = _replace_one(text, r"(?<![\w%@.#x])-?\d+(?![\w.])", NUMBERS, rng)
        elif kind == 6:
            text = _replace_one(text, _OF_ATTRIBUTE, ATTRIBUTES, rng)
        elif kind == 7:
            text = _replace_one(text, r"\bstablehlo\.\w+", _ops(everything), rng)
        elif TOKEN.search(text):
            text = damage(text, everything, rng)
    return text


def _ops(everything: list[str]) -> tuple[str, ...]:
    return tuple(one for one in everything if one.startswith("stablehlo."))


def run_child(count: int, seed: int, first: int, last: Path) -> None:
    """Compiles programs `first` to `count`, which a seed draws, each written before it is."""
    from scalify import _compiler

    programs = seeds()
    everything = [token for one in programs for token in TOKEN.findall(one) if token.strip()]
    for number in range(first, count):
        rng = random.Random(seed * 1_000_003 + number)
        text = mutate(rng.choice(programs), everything, rng)
        options = {"recipe": rng.choice(RECIPES), "target": rng.choice(TARGETS)}
        last.write_text(json.dumps([number, options, text]))
        try:
            _compiler.compile(text, json.dumps(options))
        except Exception as error:
            if not str(error).strip():
                print(f"no text of an error: {type(error)}")
                sys.exit(3)
        # Of a processor: others use the machine too.
        used = resource.getrusage(resource.RUSAGE_SELF)
        resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + SECONDS, -1))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=100_000)
    parser.add_argument("--each", type=int, default=500, help="programs of one child process")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, help="be a child, from this number on")
    parser.add_argument("--folder", type=Path, default=ROOT / "out" / "mutated")
    arguments = parser.parse_args()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    last = folder / f"last-{arguments.seed}"
    if arguments.first is not None:
        run_child(arguments.programs, arguments.seed, arguments.first, last)
        return 0
    done = found = 0
    started = time.monotonic()
    while done < arguments.programs:
        most = min(arguments.programs, done + arguments.each)
        command = [sys.executable, __file__, "--programs", str(most), "--first", str(done)]
        command += ["--seed", str(arguments.seed), "--folder", str(folder)]
        child = subprocess.run(command, capture_output=True, text=True, check=False)
        if child.returncode == 0:
            done = most
        else:
            found += 1
            number, options, text = json.loads(last.read_text())
            done = number + 1
            path = folder / f"{arguments.seed}-{number}.mlir"
            path.write_text(f"// exit {child.returncode}, {json.dumps(options)}\n{text}")
            note = (child.stderr.strip() or child.stdout.strip() or "-").splitlines()[0][:160]
            print(f"{path}: exit {child.returncode}: {note}", flush=True)
        print(f"{done} programs, {found} findings, {time.monotonic() - started:.0f} s", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
