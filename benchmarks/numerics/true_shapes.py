"""Gradients, drift and SQNR for layers of the shapes of LLaMA 7B to 70B.

The first layers of published models at their true width, SwiGLU width and heads, with embedding,
head and loss, over a row of text-like tokens. What is cut to fit the memory stands in the row:
layers, tokens, vocabulary. Each row's gradients are compared with those of `jax.jit` in F32 at
equal weights and batch: the cosine of all tensors together and of the worst one. Where weights are
BF16, F32's products have the same BF16 weights, widened, and their sums are F32.

Weights are those of the library's initialisation ("init"), and weights that carry what trained LLMs
carry ("LLM-like": massive activations, attention sinks, aligned SwiGLU, spread gains, heavy-tailed
embeddings; `benchmarks/numerics/llm_like.py`).

Drift is log2(rms / scale) of every cast to FP8, at the predicted scale and at the scale that it has
in the second call, moved by what was seen before; SQNR is that of the casts at predicted scales.
The bars: cosines of 0.98 and 0.95 in the second call, no more than 0.003 below `fp8-current`; drift
then of -4 to +5 binades forward and -8 to +8 backward.

A case whose optimizer fits the memory also runs ten whole steps with AdamW.

Each cell runs in a process of its own, whose largest resident memory is in the row. Outcomes are
kept in benchmarks/results, so that a run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
import pathlib
import platform
import resource
import shutil
import subprocess
import sys
import textwrap
import warnings
from typing import Any

import gradients as common
import jax
import jax.numpy as jnp
import llm_like
import ml_dtypes
import numerics
import numpy as np
import optax
from store import RESULTS, Store

import scalify
from scalify._lowering import Signature
from scalify._transform import transform_lowered
from scalify.models import llama

__all__ = ["CASES", "Case", "main", "row_of"]

RECIPES = ("fp8-current", "fp8", "fp8-delayed", "fp8-block", "fp8-lm-o2")
WEIGHTS = ("init", "LLM-like")
FORWARD, BACKWARD = numerics.FORWARD_BAR, numerics.BACKWARD_BAR
# Calls with the same batch before the gradient that is judged: scales move between calls.
CALLS = 2
SEED = 0
# Of whole steps with the optimizer, and the recipes that run them.
STEPS, TRAINED = 10, ("f32", "fp8", "fp8-lm-o2")
ADAMW = optax.adamw(1e-4, b1=0.9, b2=0.95, weight_decay=0.1)
SCRATCH = common.ROOT / "out" / "true-shapes"

Tree = Any


@dataclasses.dataclass(frozen=True)
class Case:
    """The first layers of a published model.

    Attributes:
        model: name of the published configuration.
        layers: how many layers are made.
        tokens: of one row.
        vocab: size of the vocabulary; None for the published one.
        dtype: format of the weights.
        trains: whether ten whole steps with AdamW run too, which need the moments' memory.
    """

    model: str
    layers: int = 2
    tokens: int = 512
    vocab: int | None = None
    dtype: str = "float32"
    trains: bool = False

    @property
    def config(self) -> llama.LlamaConfig:
        """The configuration, with F32 activations."""
        vocab = {} if self.vocab is None else {"vocab_size": self.vocab}
        return llama.LlamaConfig.named(self.model, num_hidden_layers=self.layers, **vocab)

    @property
    def name(self) -> str:
        """Everything that the outcome depends on, as text."""
        config = self.config
        vocab = f"vocabulary {config.vocab_size:,}" + (" (cut)" if self.vocab else "")
        width = f"{config.hidden_size:,} x {config.intermediate_size:,}"
        return (
            f"{self.model}, {width}, {self.layers} layers, {self.tokens:,} tokens, {vocab}, "
            f"weights {'BF16' if self.dtype == 'bfloat16' else 'F32'}"
        )


CASES = {
    "8b": Case("llama-3-8b", tokens=128, vocab=4096, trains=True),
    "7b": Case("llama-7b", tokens=128, vocab=4096),
    "13b": Case("llama-2-13b", tokens=128, vocab=4096, dtype="bfloat16"),
    "70b": Case("llama-3-70b", tokens=128, vocab=4096, dtype="bfloat16"),
    "8b-512": Case("llama-3-8b", vocab=4096, dtype="bfloat16"),
    "8b-2048": Case("llama-3-8b", tokens=2048, vocab=4096, dtype="bfloat16"),
    "8b-4-layers": Case("llama-3-8b", layers=4, tokens=128, vocab=4096, dtype="bfloat16"),
    "8b-vocab": Case("llama-3-8b", tokens=128, dtype="bfloat16"),
}


def weights_of(case: Case, kind: str) -> Tree:
    """Returns a case's weights, arrays of NumPy or JAX."""
    if kind == "init":
        return llama.init(case.config, jax.random.key(SEED), case.dtype)
    depth = llama.LlamaConfig.named(case.model).num_hidden_layers
    return llm_like.make(case.config, case.tokens, depth, SEED, case.dtype)


def batch_of(case: Case) -> Tree:
    """Returns a case's batch, other tokens than those that its weights were fitted to."""
    return llm_like.text_like(case.config, case.tokens, SEED + 1)


def gradient_of(case: Case, remat: str = "none") -> Any:
    """Returns the function (params, batch) -> (loss, gradients)."""
    config = case.config.replace(remat=remat)

    def step(params: Tree, batch: Tree) -> tuple[jax.Array, Tree]:
        return jax.value_and_grad(lambda params: llama.loss(params, batch, config))(params)

    return step


def save(folder: pathlib.Path, tree: Tree) -> None:
    """Writes a tree's leaves to files; BF16 as its bits."""
    folder.mkdir(parents=True, exist_ok=True)
    for index, leaf in enumerate(jax.tree.leaves(tree)):
        array = np.asarray(leaf)
        bits = array.view(np.uint16) if array.dtype == ml_dtypes.bfloat16 else array
        np.save(folder / f"{index}.npy", bits)


def load(folder: pathlib.Path, tree: Tree) -> Tree:
    """Returns the leaves that `save` wrote, in a tree's structure, mapped from the files."""
    leaves = []
    for index in range(len(jax.tree.leaves(tree, is_leaf=_is_shape))):
        array = np.load(folder / f"{index}.npy", mmap_mode="r")
        leaves.append(array.view(ml_dtypes.bfloat16) if array.dtype == np.uint16 else array)
    return jax.tree.unflatten(jax.tree.structure(tree, is_leaf=_is_shape), leaves)


def _is_shape(leaf: Any) -> bool:
    return isinstance(leaf, tuple)


def prepare(case: Case, folder: pathlib.Path, kind: str) -> dict[str, Any]:
    """Writes the weights and F32's gradients; returns F32's loss and the weights' figures."""
    params = weights_of(case, kind)
    save(folder / "weights", params)
    found: dict[str, Any] = {"figures": None}
    if kind != "init":
        figures = llm_like.measure(params, case.config, case.tokens, SEED + 1)
        found["figures"] = dataclasses.asdict(figures)
    del params
    params = jax.tree.map(jnp.asarray, load(folder / "weights", llama.shapes(case.config)))
    # BF16 weights, once widened, would not fit: the backward widens them again.
    remat = "full" if case.dtype == "bfloat16" else "none"
    loss, grads = jax.jit(gradient_of(case, remat))(params, batch_of(case))
    save(folder / "gradients", grads)
    found["loss"] = float(loss)
    return found


def judge(case: Case, folder: pathlib.Path, recipe: str) -> dict[str, Any]:
    """Returns the cosines of a recipe's gradients to F32's, and the state of its casts."""
    shapes = llama.shapes(case.config)
    params = jax.tree.map(jnp.asarray, load(folder / "weights", shapes))
    exact = load(folder / "gradients", shapes)
    step = scalify.jit(gradient_of(case), recipe)
    looks: list[Any] = []
    rows: list[list[dict[str, Any]]] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for call in range(CALLS):
            loss, grads = step(params, batch_of(case))
            rows.append(step.health())
            if call in (0, CALLS - 1):
                looks.append(agreement(grads, exact))
            del grads
    last = [row for row in rows[-1] if row["format"].startswith("f8")]
    lost = max(last, key=lambda row: row["saturated"] / row["elements"], default=None)
    return {
        "first": dataclasses.asdict(looks[0]),
        "gradient": dataclasses.asdict(looks[-1]),
        "loss": float(loss),
        "casts": len(last),
        "nans": sum(row["nans"] for row in last),
        "saturated": lost["saturated"] / lost["elements"] if lost else 0.0,
        "where": f"{lost['cast']} {lost['names']}" if lost else "",
        "scales": [[place_of(row["loc"]), row["format"], row["scale"]] for row in last],
        "warnings": [str(one.message) for one in caught][:4],
    }


def place_of(location: str) -> str:
    """Returns a location without the folder of this checkout."""
    return location.replace(f"{pathlib.Path(__file__).resolve().parents[2]}/", "")


def agreement(found: Tree, exact: Tree) -> common.Agreement:
    """Returns the cosines to F32's gradients, one tensor at a time to save memory."""
    dot = own = other = 0.0
    each = []
    for mine, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(exact), strict=True):
        a, b = (np.asarray(one, np.float32).ravel() for one in (mine, theirs))
        parts = [float(np.dot(x, y)) for x, y in ((a, b), (a, a), (b, b))]
        dot, own, other = dot + parts[0], own + parts[1], other + parts[2]
        norm = math.sqrt(parts[1] * parts[2])
        each.append(parts[0] / norm if norm and math.isfinite(norm) else 0.0)
    index = int(np.argmin(each))
    whole = dot / math.sqrt(own * other) if own and math.isfinite(own) else 0.0
    return common.Agreement(whole, each[index], common.names(exact)[index])


def drift(case: Case, folder: pathlib.Path, recipe: str) -> dict[str, Any]:
    """Returns rms, scale and SQNR of each cast at predicted scales.

    The recipe's step with statistics of its casts is a program of its own, which runs as it is.
    """
    params = load(folder / "weights", llama.shapes(case.config))
    signature = Signature(gradient_of(case))
    arguments = signature.bind((params, batch_of(case)), {})
    given = scalify.measure(arguments.leaves)
    text, report = transform_lowered(
        signature.lower(arguments),
        recipe,
        False,
        given,
        statistics=True,
        extra={"formatsStay": False},  # as those of a step of jit
    )
    run = scalify.compile(text, "none")
    table = np.asarray(run(*map(np.asarray, arguments.leaves))[-1], np.float64)
    found = []
    for row, (count, amax, square, noise, *_, scale) in zip(report.casts(), table, strict=True):
        found.append(
            {
                "cast": row["cast"],
                "phase": row["phase"],
                "format": row["format"],
                "location": place_of(row["location"]),
                # The table's figures are of data, value / scale, but for the amax.
                "amax": amax,
                "rms": scale * math.sqrt(square / count),
                "scale": scale,
                "sqnr": 10 * math.log10(square / noise) if noise and square else None,
            }
        )
    return {"drift": found}


def train(case: Case, folder: pathlib.Path, recipe: str) -> dict[str, Any]:
    """Returns the losses of ten whole steps with AdamW, each with another batch."""
    shapes = llama.shapes(case.config)
    params = jax.tree.map(jnp.asarray, load(folder / "weights", shapes))
    gradient = gradient_of(case)

    def step(params: Tree, state: Tree, batch: Tree) -> tuple[Tree, Tree, jax.Array]:
        loss, grads = gradient(params, batch)
        updates, state = ADAMW.update(grads, state, params)
        return optax.apply_updates(params, updates), state, loss

    run: Any = jax.jit(step, donate_argnums=(0, 1))
    if recipe != "f32":
        run = scalify.jit(step, recipe, donate_argnums=(0, 1))
    state = ADAMW.init(params)
    losses = []
    for index in range(STEPS):
        batch = llm_like.text_like(case.config, case.tokens, SEED + 1 + index)
        params, state, loss = run(params, state, batch)
        losses.append(float(loss))
    return {"losses": losses}


def run(name: str, kind: str, what: str, store: Store) -> None:
    """Runs one cell in a process of its own, unless its outcome is known."""
    key = f"{CASES[name].name}, {kind}, {what}"
    folder = SCRATCH / f"{name}-{kind}"
    if is_known(store, key) and (what != "f32" or folder.exists()):
        return
    print(f"{key} ...", flush=True)
    command = [sys.executable, __file__, "--cell", name, kind, what]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        store.add(key, {"error": f"ended with {done.returncode}", "machine": machine()})
        return
    store.add(key, json.loads(done.stdout.splitlines()[-1]))


def is_known(store: Store, key: str) -> bool:
    """True if a cell has an outcome; one that ended early runs again."""
    found = store.get(key)
    return found is not None and "error" not in found


def cell(name: str, kind: str, what: str) -> None:
    """Runs one cell in this process; prints its outcome as JSON."""
    case, folder = CASES[name], SCRATCH / f"{name}-{kind}"
    if what == "f32":
        found = prepare(case, folder, kind)
    elif what.startswith("drift "):
        found = drift(case, folder, what.removeprefix("drift "))
    elif what.startswith("steps "):
        found = train(case, folder, what.removeprefix("steps "))
    else:
        found = judge(case, folder, what)
    found["gigabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    found["machine"] = machine()
    print(json.dumps(found))


def machine() -> str:
    """Returns this machine's processor."""
    lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next((line.split(":")[1].strip() for line in lines if "model name" in line), "")
    unit = "AVX512-BF16" if "avx512_bf16" in "".join(lines) else "no BF16 unit"
    return f"{model or platform.machine()}, {unit}"


def drifts(
    known: dict[str, Any], moved: list[tuple[str, str, float]] | None = None
) -> dict[str, list[float]] | None:
    """Returns the drifts of casts to FP8 by phase, at predicted scales or at moved ones.

    The programs of a step and of its statistics number casts differently: casts are matched by
    location and format, in order where these are equal. None if they do not match.
    """
    rows = [row for row in known["drift"] if row["format"].startswith("f8")]
    if moved is None:
        moved = [(row["location"], row["format"], row["scale"]) for row in rows]
    by_place: dict[tuple[str, str], list[float]] = {}
    for place, form, scale in moved:
        by_place.setdefault((place, form), []).append(scale)
    found: dict[str, list[float]] = {"forward": [], "backward": []}
    for row in rows:
        scales = by_place.get((row["location"], row["format"]))
        if not scales:
            return None
        scale = scales.pop(0)
        if row["rms"]:
            phase = "backward" if row["phase"] == "backward" else "forward"
            found[phase].append(math.log2(row["rms"] / scale))
    return found if not any(by_place.values()) else None


def is_inside(found: dict[str, list[float]]) -> bool:
    """True if all drifts are within the bars."""
    bars = {"forward": FORWARD, "backward": BACKWARD}
    return all(
        bars[phase][0] <= value <= bars[phase][1] for phase in bars for value in found[phase]
    )


def spans(found: dict[str, list[float]] | None) -> str:
    """Returns the least and the largest drift of each phase."""
    if found is None:
        return "-"
    return "; ".join(
        f"{min(values):+.1f} .. {max(values):+.1f}" for values in found.values() if values
    )


def row_of(
    recipe: str, own: dict[str, Any], current: dict[str, Any], known: dict[str, Any] | None
) -> tuple[list[str], bool]:
    """Returns a recipe's cells of the table, and whether its bars hold."""
    if "error" in own:
        return [f"`{recipe}`", own["error"], *["-"] * 6, "FAILS"], False
    first, last = (common.Agreement(**own[part]) for part in ("first", "gradient"))
    good = last.whole >= numerics.GLOBAL_BAR and last.worst >= numerics.WORST_BAR
    good &= not own["nans"] and math.isfinite(own["loss"])
    if "error" not in current:
        good &= last.whole >= current["gradient"]["whole"] - numerics.AMAX_BAR
    cells = [f"`{recipe}`", str(own["casts"]), first.text(), last.text(), f"`{last.where}`"]
    cells.append(f"{100 * own['saturated']:.3f} %")
    moved = None
    if known is None or "error" in known:
        cells += ["-", "-"]
    else:
        moved = drifts(known, own["scales"])
        good &= moved is None or is_inside(moved)
        cells += [spans(drifts(known)), spans(moved)]
    word = numerics.verdict(good)
    # The bar of drift is that of propagated scales.
    is_missing = recipe == "fp8" and moved is None
    return [*cells, f"{word}, drift not measured" if is_missing else word], good


def page(store: Store) -> tuple[str, bool]:
    """Returns the tables of all outcomes so far, and whether every bar holds."""
    good = True
    parts: list[str] = []
    absent: list[str] = []
    header = ["recipe", "casts to FP8", "first call, all / worst", "second call, all / worst"]
    header += ["worst tensor", "most saturated", "drift predicted (forward; backward)"]
    header += ["drift moved", "bars"]
    for case, kind in itertools.product(CASES.values(), WEIGHTS):
        cells = {what: store.get(f"{case.name}, {kind}, {what}") for what in cells_of(case)}
        known = cells["drift fp8"]
        if missing := [what for what, outcome in cells.items() if outcome is None]:
            what = "all" if len(missing) == len(cells) else ", ".join(missing)
            absent.append(f"- {case.name}, {kind}: {what}")
        if (exact := cells["f32"]) is None or "error" in exact or cells["fp8-current"] is None:
            continue
        if all(not part.startswith(f"## {case.name}") for part in parts):
            parts.append(f"## {case.name}")
        parts += [f"### Weights: {kind}", summary(exact, cells, known)]
        rows = []
        for recipe in RECIPES:
            if (own := cells[recipe]) is not None:
                given = known if recipe == "fp8" else None
                row, holds = row_of(recipe, own, cells["fp8-current"], given)
                rows.append(row)
                good &= holds
        parts.append(common.table(header, rows))
        trained = {one: cells.get(f"steps {one}") for one in TRAINED}
        if losses := [
            f"`{one}` {', '.join(f'{loss:.3f}' for loss in row['losses'])}"
            for one, row in trained.items()
            if row is not None and "error" not in row
        ]:
            parts.append(f"Losses of {STEPS} whole steps with AdamW: {'; '.join(losses)}.")
    if absent:
        filled = [textwrap.fill(line, 100, subsequent_indent="  ") for line in absent]
        parts += ["## Not measured yet", "\n".join(filled)]
    return "\n\n".join(parts), good


def cells_of(case: Case) -> list[str]:
    """Returns what is measured of a case at one kind of weights."""
    steps = [f"steps {recipe}" for recipe in TRAINED] if case.trains else []
    return ["f32", *RECIPES, "drift fp8", *steps]


def summary(exact: dict[str, Any], own: dict[str, Any], known: dict[str, Any] | None) -> str:
    """Returns a paragraph of the weights' figures, memory, machine and day."""
    memory = max(row.get("gigabytes", 0) for row in [exact, *filter(None, own.values())])
    text = f"Loss in F32 {exact['loss']:.3f}. "
    if (figures := exact.get("figures")) is not None:
        top = [max(layer) for layer in figures["massive"]]
        text += (
            f"Largest activation {top[-1]:,.0f} at the first token, "
            f"{max(figures['elsewhere']):.1f} at others, median {figures['median'][-1]:.2f}; "
            f"attention to the first token {', '.join(f'{s:.2f}' for s in figures['sink'])} by "
            f"layer; SwiGLU's product up to {max(figures['peak']):.0f} times its rms. "
        )
    if known is not None and "error" not in known:
        for word in ("E4M3", "E5M2"):
            rows = [row for row in known["drift"] if word in row["format"] and row["sqnr"]]
            if rows:
                worst = min(rows, key=lambda row: row["sqnr"])
                text += f"Least SQNR of a cast to {word} {worst['sqnr']:.1f} dB. "
    return f"{text}{memory:.1f} GB at most; {exact['machine']}; {exact['date']}."


def main() -> int:
    """Runs the command; returns 1 if a bar fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--weights", nargs="+", default=WEIGHTS, choices=WEIGHTS)
    parser.add_argument("--recipes", nargs="+", default=RECIPES, choices=RECIPES)
    parser.add_argument("--no-drift", action="store_true", help="leave out drift and SQNR")
    parser.add_argument("--no-steps", action="store_true", help="leave out whole steps")
    parser.add_argument("--keep", action="store_true", help="weights and F32's gradients, in out/")
    parser.add_argument("--cell", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument(
        "--write", action="store_true", help="to docs/research/numerics-true-shapes.md"
    )
    options = parser.parse_args()
    if options.cell:
        cell(*options.cell)
        return 0
    store = Store(RESULTS / "true-shapes.jsonl")
    for name, kind in itertools.product(options.cases, options.weights):
        wanted = [
            what
            for what in cells_of(CASES[name])
            if what in options.recipes
            or (what.startswith("drift") and not options.no_drift)
            or (what.startswith("steps") and not options.no_steps)
        ]
        if all(is_known(store, f"{CASES[name].name}, {kind}, {what}") for what in wanted):
            continue
        for what in ("f32", *wanted):
            run(name, kind, what, store)
        if not options.keep:
            shutil.rmtree(SCRATCH / f"{name}-{kind}")
    text, good = page(store)
    print(text)
    if options.write:
        intro = (__doc__ or "").strip()
        common.write(
            "docs/research/numerics-true-shapes.md",
            "Layers of true shapes",
            f"{intro}\n\n{text}",
            "make true-shapes",
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
