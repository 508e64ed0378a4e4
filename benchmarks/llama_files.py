"""Two steps of a LLaMA from a Hugging Face checkpoint to another one: time, memory, and a reader.

Each part is a process, so that the largest resident memory is its own: random weights are written,
then loaded, trained for two steps and saved, then loaded by transformers, if that and PyTorch are
installed (`scripts/torch_environment.py benchmarks/llama_files.py`), which computes the same loss.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import pathlib
import resource
import shutil
import subprocess
import sys
import time
from typing import Any

import jax
import numpy as np

import scalify
from scalify.models import llama

__all__ = ["main"]

GIB = 2**30

# Configuration, format of parameters and moments, and tokens of the one row.
MODELS: dict[str, tuple[llama.LlamaConfig, str, int]] = {
    "134m": (
        llama.LlamaConfig(
            vocab_size=32000,
            hidden_size=768,
            intermediate_size=2048,
            num_hidden_layers=12,
            num_attention_heads=12,
            num_key_value_heads=12,
        ),
        "float32",
        128,
    ),
    "llama-3.2-1b": (llama.LlamaConfig.named("llama-3.2-1b"), "bfloat16", 64),
}


def batch_of(config: llama.LlamaConfig, length: int) -> dict[str, np.ndarray]:
    """Returns one row of random tokens."""
    row = np.random.default_rng(0).integers(0, config.vocab_size, (1, length + 1), dtype=np.int32)
    return {"tokens": row[:, :-1], "targets": row[:, 1:]}


def peak() -> int:
    """Returns the largest resident memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def write(name: str, folder: pathlib.Path) -> dict[str, Any]:
    """Writes random weights."""
    config, dtype, _ = MODELS[name]
    params = llama.init(config, jax.random.key(0), dtype)
    llama.hf.save(folder / "first", config, params)
    return {"parameters": llama.param_count(config)}


def train(name: str, folder: pathlib.Path) -> dict[str, Any]:
    """Loads, trains for two steps under fp8, and saves."""
    import optax

    _, dtype, length = MODELS[name]
    config = llama.LlamaConfig.from_json(folder / "first").replace(scan_layers=True, remat="full")
    started = time.perf_counter()
    config, params = llama.hf.load(folder / "first", config, dtype=dtype)
    optimizer = optax.adamw(1e-4)

    def step(params: Any, state: Any, batch: Any) -> tuple[Any, Any, jax.Array]:
        loss, grads = jax.value_and_grad(llama.loss)(params, batch, config)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    compiled = scalify.jit(step, recipe="fp8", donate_argnums=(0, 1))
    state, losses, batch = optimizer.init(params), [], batch_of(config, length)
    loaded = time.perf_counter()
    for _ in range(2):
        params, state, loss = compiled(params, state, batch)
        losses.append(float(loss))
    trained = time.perf_counter()
    llama.hf.save(folder / "tuned", config, params)
    saved, memory = time.perf_counter(), peak()
    after = float(jax.jit(llama.loss, static_argnums=2)(params, batch, config))
    return {
        "load_s": loaded - started,
        "steps_s": trained - loaded,
        "save_s": saved - trained,
        "memory": memory,
        "losses": [*losses, after],
        "formats": sorted({str(row["format"]) for row in compiled.health()}),
    }


def read(name: str, folder: pathlib.Path) -> dict[str, Any]:
    """Loads what was saved in transformers, and computes the loss in F32."""
    import torch
    import transformers

    config, _, length = MODELS[name]
    batch = {key: torch.tensor(value).long() for key, value in batch_of(config, length).items()}
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "tuned", dtype=torch.float32)
    with torch.no_grad():
        logits = model(batch["tokens"]).logits[0]
    return {"loss": float(torch.nn.functional.cross_entropy(logits, batch["targets"][0]))}


PARTS = {"write": write, "train": train, "read": read}


def run(part: str, name: str, folder: pathlib.Path) -> dict[str, Any]:
    """Returns what a part says, run in a process of its own."""
    command = [sys.executable, __file__, "--part", part, "--models", name, "--folder", str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("out/llama-files"))
    parser.add_argument("--part", choices=PARTS, help="run one part here, and print it as JSON")
    options = parser.parse_args()
    if options.part:
        found = PARTS[options.part](options.models[0], options.folder)
        print(json.dumps(found))
        return 0
    for name in options.models:
        shutil.rmtree(options.folder, ignore_errors=True)
        written = run("write", name, options.folder)
        done = run("train", name, options.folder)
        first, second, after = done["losses"]
        print(
            f"{name}: {written['parameters'] / 1e6:,.0f} M parameters; loaded in "
            f"{done['load_s']:.1f} s, two steps {done['steps_s']:.1f} s, saved in "
            f"{done['save_s']:.1f} s; {done['memory'] / GIB:.2f} GiB at the peak; losses "
            f"{first:.4f}, {second:.4f}, then {after:.4f}; {', '.join(done['formats'])}",
            flush=True,
        )
        if all(map(importlib.util.find_spec, ("torch", "transformers"))):
            theirs = run("read", name, options.folder)["loss"]
            print(f"{name}: transformers loads it: loss {theirs:.4f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
