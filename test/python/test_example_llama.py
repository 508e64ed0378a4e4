"""The example runs by its command line, and its training learns."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
from safetensors.numpy import load_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAIN = ROOT / "examples" / "llama" / "train.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(TRAIN), *arguments], capture_output=True, text=True, check=False
    )


def test_training_by_jax_learns_and_writes_its_page(tmp_path: pathlib.Path) -> None:
    out = tmp_path / "llama.html"
    small = ["--layers", "2", "--dim", "32", "--ffn", "48", "--seq", "32", "--batch", "4"]
    options = ["--steps", "40", "--warmup", "4", "--learning-rate", "1e-2", "--out", str(out)]
    done = run("--backend", "jax", "--recipe", "none", *small, *options)
    assert done.returncode == 0, done.stderr
    match = re.search(r"^f32 +(\d\.\d{4})", done.stdout, re.MULTILINE)
    assert match, done.stdout
    # A uniform guess has log(256) = 5.55; the frequencies of single bytes give about 3.3.
    assert float(match.group(1)) < 3.6
    text = out.read_text()
    assert text.count("<polyline") == 2
    assert "http" not in text


def test_fp8_follows_f32(tmp_path: pathlib.Path) -> None:
    out = tmp_path / "llama.html"
    small = ["--layers", "2", "--dim", "32", "--ffn", "48", "--seq", "32", "--batch", "4"]
    options = ["--steps", "40", "--warmup", "4", "--learning-rate", "1e-2", "--out", str(out)]
    done = run("--backend", "transform", *small, *options, "--max-gap", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^fp8 +\d\.\d{4} +[+-]\d", done.stdout, re.MULTILINE), done.stdout
    # Two training curves, each raw and smooth, and the casts of the FP8 run by format.
    text = out.read_text()
    assert text.count("<polyline") >= 6
    assert "float8_e4m3fn" in text or "f8E4M3FN" in text


def test_recipe_on_plain_jax_is_refused() -> None:
    done = run("--backend", "jax", "--recipe", "fp8", "--alone", "--steps", "1", "--layers", "1")
    assert done.returncode == 2
    assert "knows no recipe 'fp8'" in done.stderr


def test_bad_sizes_are_refused() -> None:
    done = run("--recipe", "none", "--heads", "5")
    assert done.returncode == 1
    assert "heads" in done.stderr


def test_training_goes_on_from_checkpoints(tmp_path: pathlib.Path) -> None:
    small = ["--layers", "1", "--dim", "32", "--ffn", "48", "--seq", "32", "--batch", "4"]
    options = ["--recipe", "fp8-delayed", "--alone", "--steps", "6", "--warmup", "2"]

    def losses(folder: pathlib.Path) -> str:
        out = folder / "llama.html"
        save = ["--save", str(folder), "--every", "4", "--out", str(out)]
        done = run(*small, *options, *save, "--resume")
        assert done.returncode == 0, done.stderr
        return re.findall(r"^fp8-delayed +(\d\.\d{4})", done.stdout, re.MULTILINE)[-1]

    straight = losses(tmp_path)
    saved = tmp_path / "fp8-delayed"
    names = ["step-00000004", "step-00000006"]
    assert sorted(path.name for path in saved.iterdir()) == names
    end = load_file(next((saved / names[1]).glob("*.safetensors")))
    shutil.rmtree(saved / names[1])
    assert losses(tmp_path) == straight
    again = load_file(next((saved / names[1]).glob("*.safetensors")))
    assert {name: array.tobytes() for name, array in again.items()} == {
        name: array.tobytes() for name, array in end.items()
    }
    assert "jit:scalify.amax_history" in end
    refused = run("--resume")
    assert refused.returncode == 2
    assert "name their folder by --save" in refused.stderr
    # Another run would lose its checkpoints to those that are there.
    fresh = run(*small, *options, "--save", str(tmp_path))
    assert fresh.returncode == 2
    assert "holds checkpoints of an earlier run" in fresh.stderr
    assert "--resume" in fresh.stderr
    assert sorted(path.name for path in saved.iterdir()) == names
    # A run may go on for longer: what grows with it is no part of the state's shape.
    longer = [option if option != "6" else "8" for option in options]
    done = run(
        *small, *longer, "--save", str(tmp_path), "--out", str(tmp_path / "a.html"), "--resume"
    )
    assert done.returncode == 0, done.stderr
    far = load_file(next((saved / "step-00000008").glob("*.safetensors")))
    grown = [name for name in far if far[name].shape == (8,) and end[name].shape == (6,)]
    assert len(grown) == 1
    np.testing.assert_array_equal(far[grown[0]][:6], end[grown[0]])
