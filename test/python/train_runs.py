"""A tiny run for tests of `scalify train`: a file of tokens, a configuration, and ranks."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np

from scalify.train.tokens import TokenWriter

CONFIG = """
[model.override]
hidden_size = 32
intermediate_size = 64
num_hidden_layers = 2
num_attention_heads = 2
num_key_value_heads = 1
max_position_embeddings = 64

[data]
train = [{{ path = "{folder}/corpus.tokens" }}]
validation = "{folder}/corpus.tokens"
sequence = 32

[train]
steps = 20
batch = 8

[optimizer]
learning_rate = 1e-2

[schedule]
warmup = 2

[checkpoint]
every = 5

[log]
folder = "{folder}/run"
page = false
"""
VOCABULARY = 64


def write_corpus(path: pathlib.Path, documents: int = 60, seed: int = 0) -> None:
    """Writes documents in which each token determines the next, so that a model can learn it."""
    rng = np.random.default_rng(seed)
    follower = np.random.default_rng(0).permutation(VOCABULARY - 1)
    with TokenWriter(path, VOCABULARY, VOCABULARY - 1) as writer:
        for _ in range(documents):
            tokens = [int(rng.integers(VOCABULARY - 1))]
            for _ in range(int(rng.integers(5, 80))):
                tokens.append(int(follower[tokens[-1]]))
            writer.add([*tokens, VOCABULARY - 1])


def prepare(folder: pathlib.Path) -> pathlib.Path:
    """Writes the corpus and the configuration; returns the latter's path."""
    write_corpus(folder / "corpus.tokens")
    path = folder / "config.toml"
    path.write_text(CONFIG.format(folder=folder))
    return path


def start(
    config: pathlib.Path, *options: str, ranks: int = 1, job: str = ""
) -> list[subprocess.Popen[str]]:
    """Starts the command on ranks."""
    started = []
    for rank in range(ranks):
        where = {"SCALIFY_RANK": str(rank), "SCALIFY_SIZE": str(ranks), "SCALIFY_JOB": job}
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        if ranks > 1:
            environment |= where | {"SCALIFY_COMM_TIMEOUT": "60"}
        sets = [word for option in options for word in ("--set", option)]
        command = [sys.executable, "-m", "scalify.train", str(config), *sets]
        started.append(
            subprocess.Popen(
                command,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    return started


def finish(started: list[subprocess.Popen[str]]) -> str:
    """Returns the output of ranks that end well."""
    said = [process.communicate(timeout=200)[0] for process in started]
    assert all(process.returncode == 0 for process in started), said
    return said[0]


def records(folder: pathlib.Path, kind: str = "step") -> list[dict[str, Any]]:
    """Returns the records of a run's log."""
    lines = (folder / "log.jsonl").read_text().splitlines()
    return [one for line in lines if (one := json.loads(line))["kind"] == kind]
