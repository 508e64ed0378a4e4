"""Runs a step by recipes beside the step as written, at equal weights and batch."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import jax
import numpy as np

from scalify._decorate import jit
from scalify._diagnostics import warn
from scalify._jit import Jit
from scalify._lowering import Signature
from scalify._probe import added_results
from scalify._statistics import Statistics
from scalify._transform import transform_lowered
from scalify.check.items import items_of, wide_shares
from scalify.check.program import Program, copied, is_float, wide
from scalify.check.results import BARS, CastHealth, Look, Result
from scalify.errors import CompileError
from scalify.numerics import cosine
from scalify.recipe import Recipe, recipes
from scalify.scales import measure

__all__ = ["Bench", "name_of"]

# An array whose rms is below this share of the largest one's is rounding noise.
_NOISE = 1e-6
_ROUNDS, _SECONDS = 20, 6.0  # of timing, at most


class Bench:
    """One step, the step as written, and the tensors that are compared.

    Attributes:
        program: the step.
        compared: what the tensors are.
        items: the tensors that are judged.
        noise: names of tensors that F32 itself does not reproduce, with their cosine.
    """

    def __init__(self, program: Program, batches: Sequence[Sequence[Any]] = ()) -> None:
        """Initialises a bench.

        Args:
            program: the step.
            batches: leaves of the arguments of the calls that follow the first; of these the
                parts that are no state are used.
        """
        self.program = program
        self.batches = list(batches)
        self.compared: Literal["gradients", "updates", "results"]
        self.compared, self.items, taps = items_of(program)
        self._tapped = program.function(taps) if taps else program.function()
        self._has_taps = bool(taps)
        self._plain = program.function()
        self._wide = jax.jit(self._tapped)
        self._leaves = program.leaves()
        self.noise: dict[str, float] = {}
        own = [place for place, leaf in enumerate(program.next_of) if leaf is None]
        scalars = [place for place in own if _is_scalar(program.jaxpr.jaxpr.outvars[place].aval)]
        self._loss = scalars[0] if scalars else None

    def reference(self, leaves: Sequence[Any]) -> tuple[list[np.ndarray], float | None]:
        """Returns the compared tensors and the loss by the step as written, under `jax.jit`."""
        args, kwargs = self.program.unflatten([_for_jax(leaf) for leaf in leaves])
        return self._read(self._wide(*args, **kwargs), leaves)

    def find_noise(self) -> None:
        """Leaves out tensors that F32 by Scalify and F32 by XLA do not agree on.

        Raises:
            FloatingPointError: the step as written is not finite, or no tensor is left.
        """
        truth, _ = self.reference(self._leaves)
        if not all(np.isfinite(tensor).all() for tensor in truth):
            bad = [
                item.name
                for item, one in zip(self.items, truth, strict=True)
                if not np.isfinite(one).all()
            ]
            raise FloatingPointError(
                f"the step as written gives NaN or infinity ({bad[0]}, {len(bad)} in all) for "
                "these arguments: give weights and a batch for which it is finite"
            )
        step = self.compile("none")
        found, _ = self._run(step, self._leaves)
        sizes = [float(np.sqrt(np.mean(tensor**2))) if tensor.size else 0.0 for tensor in truth]
        largest = max(sizes, default=0.0)
        kept = []
        for item, mine, theirs, size in zip(self.items, found, truth, sizes, strict=True):
            agreement = cosine([mine], [theirs])
            if size <= _NOISE * largest or agreement < BARS.noise:
                self.noise[item.name] = agreement
            else:
                kept.append(item)
        if not kept:
            raise FloatingPointError(
                f"F32 itself does not reproduce any of the {len(self.items)} {self.compared} for "
                "these arguments, or all are zero: two programs in F32 disagree (cosines up to "
                f"{max(self.noise.values(), default=0.0):.3f}), so that no recipe can be judged; "
                "give weights at which the step is less sensitive, as after some training"
            )
        self.items = kept

    def compile(self, recipe: Any, tapped: bool = True) -> Jit:
        """Returns the step under a recipe, with or without its gradients as results."""
        return jit(
            self._tapped if tapped else self._plain, recipe=str(recipe), **self.program.donate()
        )

    def _run(self, step: Jit, leaves: Sequence[Any]) -> tuple[list[np.ndarray], float | None]:
        found, loss, _ = self._run_on(step, leaves)
        return found, loss

    def _run_on(
        self, step: Jit, leaves: Sequence[Any]
    ) -> tuple[list[np.ndarray], float | None, list[Any]]:
        args, kwargs = self.program.unflatten([copied(leaf) for leaf in leaves])
        results = step(*args, **kwargs)
        own = results[0] if self._has_taps else results
        tensors, loss = self._read(results, leaves)
        return tensors, loss, jax.tree.leaves(own, is_leaf=_is_scaled)

    def _read(self, results: Any, leaves: Sequence[Any]) -> tuple[list[np.ndarray], float | None]:
        own, taps = results if self._has_taps else (results, [])
        flat = jax.tree.leaves(own, is_leaf=_is_scaled)
        tensors = []
        for item in self.items:
            if item.tap is not None:
                tensors.append(wide(taps[item.tap]))
                continue
            assert item.result is not None
            value = wide(flat[item.result])
            tensors.append(value if item.leaf is None else value - wide(leaves[item.leaf]))
        loss = None if self._loss is None else float(np.asarray(flat[self._loss]))
        return tensors, loss

    def _look(self, step: Jit, leaves: Sequence[Any], number: int) -> Look:
        found, loss = self._run(step, leaves)
        truth, reference = self.reference(leaves)
        names = [item.name for item in self.items]
        tensors = {
            name: cosine([mine], [theirs])
            for name, mine, theirs in zip(names, found, truth, strict=True)
            if np.any(theirs)
        }
        return Look(number, cosine(found, truth), tensors, loss, reference)

    def measure(self, recipe: str | Recipe, label: str, steps: int = 0) -> Result:
        """Returns the gradients and the casts of the step under a recipe.

        Args:
            recipe: of the step.
            label: for tables.
            steps: of training by the recipe, after which it looks again.
        """
        text = name_of(recipe)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                return self._measure(recipe, text, label, steps)
        except (CompileError, NotImplementedError) as error:
            return Result(label, text, error=str(error).splitlines()[0])

    def _measure(self, recipe: str | Recipe, text: str, label: str, steps: int) -> Result:
        step = self.compile(recipe)
        first = self._look(step, self._leaves, 0)
        # The scales of a cast have moved by then, if they had to.
        looks = [self._look(step, self._leaves, 0)]
        leaves = self._leaves
        for number in range(steps):
            leaves = self._with_batch(leaves, number)
            _, _, results = self._run_on(step, leaves)
            leaves = self.program.following(leaves, results)
        if steps:
            looks.append(self._look(step, self._with_batch(leaves, steps), steps))
        report = step.report()
        flops = sum(row.get("flops") or 0 for row in report.dots())
        narrow = sum(row.get("flops") or 0 for row in report.dots() if not row["wide"])
        casts = self._casts(step, recipe)
        return Result(
            label=label,
            recipe=text,
            looks=tuple(looks),
            first=first.whole,
            casts=casts,
            narrow=narrow / flops if flops and casts else 0.0,
            weights=tuple(dict.fromkeys(row["weight"] for row in report.dots() if not row["wide"])),
            wide=wide_shares(report.dots(), flops),
        )

    def _with_batch(self, leaves: Sequence[Any], number: int) -> list[Any]:
        if not self.batches or number == 0:
            return list(leaves)
        state = set(self.program.next_of)
        batch = self.batches[min(number, len(self.batches)) - 1]
        return [
            old if place in state else new
            for place, (old, new) in enumerate(zip(leaves, batch, strict=True))
        ]

    def _casts(self, step: Jit, recipe: str | Recipe) -> tuple[CastHealth, ...]:
        health = step.health()
        phases = {row["cast"]: row["phase"] for row in step.report().casts()}
        drifts = self._drifts(step, recipe, health)
        return tuple(
            CastHealth(
                cast=row["cast"],
                location=row["loc"],
                phase=phases.get(row["cast"], ""),
                format=row["format"],
                saturated=row["saturated"] / max(1, row["elements"]),
                flushed=row["flushed"] / max(1, row["elements"]),
                nans=int(row["nans"]),
                drift=drifts.get(row["cast"]),
            )
            for row in health
        )

    def _drifts(
        self, step: Jit, recipe: str | Recipe, health: Sequence[Mapping[str, Any]]
    ) -> dict[str, float]:
        """Returns log2(rms / scale) of casts, at the first call's weights.

        The true sizes come from one step under XLA in the same formats, the scales from those in
        use.
        """
        known = Recipe.of(recipe)
        # BF16 has the range of F32: the size of its data does not matter.
        rows = {row["cast"]: row for row in health if row["format"] != "bf16"}
        if not rows or known.scales not in ("propagated", "unit"):
            return {}
        signature = Signature(self._tapped, **self.program.donate())
        arguments = signature.bind(*self.program.unflatten(self._leaves))
        lowered = signature.lower(arguments)
        text, report = transform_lowered(
            lowered,
            recipe,
            False,
            measure(arguments.leaves),
            statistics=True,
            extra=_format_options(step),
        )
        # It runs once: XLA's optimizations would take longer than they save.
        options = {"xla_backend_optimization_level": 0}
        try:
            (table,) = added_results(self.program.name, text, lowered, arguments, options)
        except (jax.errors.JaxRuntimeError, NotImplementedError) as error:
            warn(f"drift is not measured, since XLA does not run the rewritten step: {error}")
            return {}
        casts = report.casts()
        statistics = Statistics()
        statistics.add_table([row["cast"] for row in casts], table)
        found = statistics.steps[0]
        drifts = {}
        for cast in casts:
            name = cast["cast"]
            row, rms = rows.get(name), found[name]["rms"]
            # XLA keeps some ops, as Fourier transforms, that the step expands.
            is_same = row is not None and (row["format"], row["loc"]) == (
                cast["format"],
                cast["location"],
            )
            if row is not None and is_same and rms and row["scale"]:
                drifts[name] = float(np.log2(rms / row["scale"]))
        return drifts

    def timed(self, recipes: Sequence[str]) -> tuple[dict[str, float], dict[str, int]]:
        """Returns median seconds of a step by `jax.jit` ("") and each recipe, and bytes of each."""
        runs: dict[str, Callable[..., Any]] = {}
        memory: dict[str, int] = {}
        args, kwargs = self.program.unflatten([_for_jax(leaf) for leaf in self._leaves])
        plain = jax.jit(self._plain, **self.program.donate())
        compiled = plain.lower(*args, **kwargs).compile()
        if (known := compiled.memory_analysis()) is not None:
            memory[""] = int(
                known.argument_size_in_bytes
                + known.output_size_in_bytes
                + known.temp_size_in_bytes
                - known.alias_size_in_bytes
            )
        runs[""] = plain
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            for recipe in recipes:
                runs[recipe] = step = self.compile(recipe, tapped=False)
                _once(step, self.program, self._leaves)
                memory[recipe] = int(step.memory()["peak"])
            _once(plain, self.program, self._leaves)
            times: dict[str, list[float]] = {name: [] for name in runs}
            started = time.perf_counter()
            # Side by side, so that a busy moment of the machine hits all alike.
            for number in range(_ROUNDS):
                if number >= 3 and time.perf_counter() - started > _SECONDS:
                    break
                for name, run in runs.items():
                    times[name].append(_once(run, self.program, self._leaves))
        return {name: float(np.median(found)) for name, found in times.items()}, memory


def name_of(recipe: str | Recipe) -> str:
    """Returns a preset's name, or else the recipe's text."""
    known = Recipe.of(recipe)
    is_preset = known.name in recipes() and Recipe.preset(known.name) == known
    return known.name if is_preset else str(known)


def _once(run: Callable[..., Any], program: Program, leaves: Sequence[Any]) -> float:
    """Returns the seconds of one call on copies of the arguments."""
    args, kwargs = program.unflatten([copied(_for_jax(leaf)) for leaf in leaves])
    jax.block_until_ready((args, kwargs))
    started = time.perf_counter()
    results = run(*args, **kwargs)
    for leaf in jax.tree.leaves(results, is_leaf=_is_scaled):
        if isinstance(leaf, jax.Array):
            leaf.block_until_ready()
    return time.perf_counter() - started


def _is_scalar(aval: Any) -> bool:
    return aval.shape == () and is_float(aval)


def _is_scaled(leaf: Any) -> bool:
    return type(leaf).__name__ == "ScaledArray"


def _for_jax(leaf: Any) -> Any:
    return np.asarray(leaf) if _is_scaled(leaf) else leaf


def _format_options(step: Jit) -> dict[str, Any]:
    """Returns the options of the compiler that decide the formats which a step has now."""
    entry = step._last
    assert entry is not None
    options = step._compile_options(entry.lowered, entry.scales, entry.wide, entry.correction)
    names = ("formatsStay", "noiseExponent", "wide")
    return {name: options[name] for name in names if name in options}
