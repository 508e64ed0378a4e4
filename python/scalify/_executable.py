"""Compiled steps: run an artefact on arrays."""

from __future__ import annotations

import functools
import json
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from scalify import _runtime
from scalify._build import Remake, build, explain
from scalify._callbacks import HostCalls, commands_of
from scalify._counters import StepCounters, placed
from scalify._kept import AMAX_HISTORY, CAST_SCALES, KeptState
from scalify._manifest import read_section, target_of
from scalify._nested import is_traced
from scalify._scaled_array import Storage
from scalify._stored_state import StoredState
from scalify._wire import collectives
from scalify._xla_call import StepInXla
from scalify.ranges import violated_assumptions
from scalify.report import Report
from scalify.scales import Scales

__all__ = ["Executable", "build", "compile_text", "explain", "load"]


class Executable:
    """A compiled step; calling it runs one step.

    Attributes:
        diagnostics: the compiler's diagnostics, as in `CompileError.diagnostics`; empty for a
            loaded artefact.
    """

    def __init__(
        self,
        artefact: bytes,
        threads: int = 0,
        diagnostics: Sequence[dict[str, Any]] = (),
        explain: Callable[[], dict[str, Any]] | None = None,
        device: str | None = None,
        comm: _runtime.Communicator | None = None,
    ) -> None:
        """Loads an artefact's bytes.

        Args:
            artefact: the bytes that `save` writes.
            threads: 0 for one per core that the process may use. Results do not depend on it.
            diagnostics: see above.
            explain: makes the full report if the artefact holds none.
            device: "cpu"; "cuda" for an artefact of a GPU; "null", which computes nothing
                and records in `trace` the calls that a device would get. None for the artefact's
                own target: on a machine without a GPU, an artefact for one can be inspected and
                saved, and its steps raise.
            comm: connects the ranks of an artefact for several ranks; each rank loads it.

        Raises:
            RuntimeError: the artefact is damaged, or this machine cannot run it.
        """
        self._cannot_run_reason = ""
        self._comm = comm
        self._device = device
        self._remake: Remake | None = None
        self._is_profiling = self._has_given_state = False
        self._take(artefact, threads, diagnostics, explain)

    def _take(
        self,
        artefact: bytes,
        threads: int,
        diagnostics: Sequence[dict[str, Any]],
        explain: Callable[[], dict[str, Any]] | None,
    ) -> None:
        """Loads an artefact in place of the current one."""
        # Drops the cached properties of an earlier artefact.
        for name in (
            "_counted",
            "manifest",
            "args",
            "stored",
            "results",
            "calls_back",
            "_plain_in_xla",
        ):
            self.__dict__.pop(name, None)
        self._artefact = artefact
        self._runtime = self._load(artefact, threads, self._device)
        self._explain = explain
        self._kept = KeptState(self._runtime)
        self._host: HostCalls | None = None
        self.bind_callbacks(())
        self.diagnostics = list(diagnostics)

    def _recompile_with_measured_scales(self, arrays: Sequence[Any]) -> None:
        """Compiles again, with scales measured from the arrays of the first call."""
        remake, self._remake = self._remake, None
        if remake is None or len(arrays) != len(self.args):
            return
        kept = self.kept if self._has_given_state else {}
        artefact, diagnostics, explain = remake(arrays)
        self._take(artefact, self.threads, diagnostics, explain)
        self.take_over(kept)
        if self._is_profiling:
            self._runtime.set_profiling(True)

    def _load(self, artefact: bytes, threads: int, device: str | None) -> _runtime.Executable:
        if device is not None:
            return _runtime.Executable(artefact, threads, device, self._comm)
        target, own = target_of(artefact)
        if own == "cpu":
            return _runtime.Executable(artefact, threads, own, self._comm)
        try:
            return _runtime.Executable(artefact, threads, own, self._comm)
        except RuntimeError as error:
            # A damaged artefact fails here too, with an error that says why.
            loaded = _runtime.Executable(artefact, threads, "null")
            self._cannot_run_reason = (
                f"this machine cannot run an artefact for '{target}': {error}. `save` it and load "
                "it on one that can; device='null' records what a step would do"
            )
            return loaded

    def bind_callbacks(self, callbacks: Sequence[Callable[..., Any]]) -> None:
        """Gives the step the Python functions that its program calls back.

        Args:
            callbacks: indexed by the numbers that JAX gave them when it traced the program.
        """
        if self.calls_back:
            self._host = HostCalls(self.manifest, callbacks)
            self._runtime.set_host_call(self._host)

    def __call__(self, *arrays: Any) -> list[Any]:
        """Runs one step on main's arguments and returns main's results, in order.

        Arrays of numpy (ml_dtypes for bf16 and f8), JAX and DLPack are read in place if they are
        dense and in the memory of the step's device: on the CPU, or on the GPU at a multiple of 64
        bytes. Host arrays are copied to a GPU in each step. A donated argument that is a
        `scalify.Array` gives its memory to its result, which comes back as an Array; any other
        donated array is copied once. Results that are not donated are numpy arrays on the CPU and
        Arrays on a GPU.

        State that the recipe stores narrow comes back as a `scalify.ScaledArray`. The step takes
        over such an array without a copy if it has the same storage; F32 values of any other array
        are rounded to nearest.

        Raises:
            ValueError: the count, a shape or a dtype does not fit, an Array was donated before, or
                is donated and passed twice.
            RuntimeError: the artefact is for a GPU, and this machine has none.
            KeyboardInterrupt: between two commands; donated Arrays are lost then.
        """
        return self.stored.give(self.run(arrays))

    def run(self, arrays: Sequence[Any], in_place: bool = False) -> list[Any]:
        """Runs one step as a call does, but returns state that is stored narrow as its data.

        Args:
            arrays: main's arguments.
            in_place: overwrite donated arguments, dense and writable NumPy arrays, with results.
        """
        if self._cannot_run_reason:
            raise RuntimeError(self._cannot_run_reason)
        if self._remake is not None:
            self._recompile_with_measured_scales(arrays)
        inputs = self.stored.take(arrays)
        self._check_donation(inputs)
        try:
            return self._kept.run(inputs, in_place)
        except RuntimeError:
            if self._host is not None:
                self._host.reraise()
            raise

    def move_scales(self, arrays: Sequence[Any]) -> None:
        """Counts the casts' values for arguments, and moves the scales that a step moves.

        All arguments stay the caller's, donated ones too. On the CPU only those are copied that
        more than an optimizer's update overwrites.

        Args:
            arrays: main's arguments, as `run` takes them.
        """
        if self._remake is not None:
            self._recompile_with_measured_scales(arrays)
        self._kept.move_scales(self.stored.take(arrays))

    @functools.cached_property
    def is_on_host(self) -> bool:
        """Whether steps compute on the CPU."""
        return self.manifest["device"] == "cpu" and self._device in (None, "cpu")

    @property
    def is_where_xla_is(self) -> bool:
        """Whether steps compute on the device that JAX uses by default: the CPU, or a GPU."""
        if jax.default_backend() == "cpu":
            return self.is_on_host
        is_on_gpu = self.manifest["device"] == "cuda" and self._device in (None, "cuda")
        return is_on_gpu and self.computes and jax.default_backend() == "gpu"

    @property
    def has_initial_state(self) -> bool:
        """Whether no step has run and no state was set."""
        return self._kept.is_initial

    @property
    def computes(self) -> bool:
        """Whether steps compute on this machine: False for device "null" and a missing GPU."""
        return self._device != "null" and not self._cannot_run_reason

    @functools.cached_property
    def calls_back(self) -> bool:
        """Whether a step calls this process: Python functions, or XLA."""
        return '"host_call"' in self._runtime.manifest

    def in_xla(
        self,
        donated: Sequence[bool],
        keys: tuple[Sequence[str | None], Sequence[str | None]],
        weak: Sequence[bool],
        name: str,
    ) -> StepInXla:
        """Returns the step for JAX's arrays; arguments as for `StepInXla`."""
        counts = (self._kept.num_args, self._kept.num_results)
        return StepInXla(self._runtime, self._kept, counts, donated, keys, weak, name)

    def call(self, *arrays: Any) -> list[Any]:
        """Runs one step on JAX's arrays, within `jax.jit` too.

        There the step is one custom call, which reads XLA's memory and overwrites donated arguments
        unless the program reads them later. Each run takes over the state that the last one left.

        Args:
            *arrays: main's arguments.

        Returns:
            Main's results, in order.

        Raises:
            NotImplementedError: the step cannot be a part of an XLA program.
        """
        if not is_traced():
            return self(*arrays)
        if len(arrays) != len(self.args):
            raise ValueError(f"the step takes {len(self.args)} arguments, not {len(arrays)}")
        return list(self.traced(self._plain_in_xla, arrays))

    @functools.cached_property
    def _plain_in_xla(self) -> StepInXla:
        numbers = (self._kept.num_args, self._kept.num_results)
        given, made = ([None] * count for count in numbers)
        donated, weak = ([False] * count for count in numbers)
        return self.in_xla(donated, (given, made), weak, "step")

    def traced(self, step: StepInXla | None, arrays: Sequence[Any]) -> Sequence[Any]:
        """Returns the results of the step as a part of the function that JAX traces.

        Args:
            step: of `in_xla`; None if that is impossible.
            arrays: main's arguments.

        Raises:
            NotImplementedError: the step cannot be a part of an XLA program.
        """
        reason = ""
        if self.calls_back:
            reason = "it calls back into this process: leave callbacks and fallback= out"
        elif not self.is_where_xla_is:
            reason = "it and JAX must run on one device; scalify.transform has no such limit"
        elif not self.is_on_host and self._kept.measures:
            reason = "on a GPU it cannot take the amaxes of arguments there"
        elif any(arg["storage"] is not None for arg in self.args):
            reason = "it stores state narrow: Numerics(pack_state=False)"
        if reason or step is None:
            raise NotImplementedError(f"a step within JAX's trace: {reason or 'it has no results'}")
        # Compiled again for measured scales, it would be another step.
        self._remake = None
        return step.traced(arrays, self._artefact)

    @property
    def kept(self) -> dict[str, NDArray[Any]]:
        """Copies of the state that the executable keeps for its caller, by name.

        The names start with `scalify.`: scales of casts, amaxes of earlier steps. Save them with a
        checkpoint, and set them when it is loaded: the run then resumes bit for bit. Setting a
        mapping leaves arrays that it does not name unchanged.
        """
        return self._kept.copies()

    @kept.setter
    def kept(self, arrays: Mapping[str, Any]) -> None:
        self._has_given_state = True
        for name, array in arrays.items():
            self._kept.set(name, array)

    def take_over(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Sets the `kept` arrays of another executable that this one keeps with the same type."""
        self.kept = {name: array for name, array in arrays.items() if self._kept.fits(name, array)}

    @property
    def amax_history(self) -> NDArray[Any] | None:
        """The amaxes of the casts in the last steps, F32 [N, window], newest last.

        None if the recipe's scales are not delayed. They belong to the state: save them with a
        checkpoint and set them when it is loaded. A zero means that no amax was recorded.
        """
        return self._kept.get(AMAX_HISTORY)

    @amax_history.setter
    def amax_history(self, history: Any) -> None:
        if AMAX_HISTORY not in self._kept:
            raise ValueError("a history of amaxes for a step whose scales are not delayed")
        self._kept.set(AMAX_HISTORY, history)

    @property
    def cast_scales(self) -> NDArray[Any] | None:
        """The current scales of the casts, F32 [N], or None if they are constants in the code.

        They belong to the state: save them with a checkpoint and set them when it is loaded.
        """
        return self._kept.get(CAST_SCALES)

    @cast_scales.setter
    def cast_scales(self, scales: Any) -> None:
        given, own = np.asarray(scales, np.float32), self.cast_scales
        if own is None or given.shape != own.shape:
            has = "none" if own is None else f"{len(own)}"
            raise ValueError(f"{given.size} scales of casts for a step that reads {has}")
        self._kept.set(CAST_SCALES, given)

    def rescale(self) -> int:
        """Runs `@rescale`: moves scales of casts by the counts of the last step.

        Run it every k steps. A scale moves up by 1, 2, 4 or 8 binades if more than 2^-12, 1 %, 10 %
        or 30 % of the values saturated, and down by 1, 2 or 4 if more than 2 %, 10 % or 50 % became
        zero and none is in the four binades at the top of the format. If nothing clips, nothing
        moves, and steps keep their bits.

        All ranks must call it: their counts are added, and their scales stay equal.

        Returns:
            The number of scales that moved.

        Raises:
            ValueError: the scales are constants in the code: compile with adaptive scales.
        """
        before = self.cast_scales
        if before is None:
            raise ValueError(
                "the scales of casts are constants: compile with Numerics(adaptive_scales=True)"
            )
        if not len(before):
            return 0
        counters, _ = self._counted.sum_over_ranks()
        counters = counters[: len(before)]
        (moved,) = self._runtime.run((before, counters), "rescale")
        after = np.array(moved)
        self._kept.set(CAST_SCALES, after)
        return int(np.count_nonzero(after != before))

    @property
    def counters(self) -> NDArray[np.uint64]:
        """The counts of each cast in the last step, [casts, 6].

        The words are saturated, flushed, zeros, nans, top and scales. The last word counts the
        cast's scales in its upper 24 bits; below it has the sum of their bits without the last 15.
        Counters that are set stay until the next step.
        """
        return self._runtime.counters()

    @counters.setter
    def counters(self, counts: NDArray[np.uint64]) -> None:
        shape = self._runtime.counters().shape
        if counts.shape != shape:
            raise ValueError(f"counters of shape {counts.shape} for a step that has {shape}")
        self._runtime.set_counters(np.array(counts, np.uint64))

    def is_lost(self, share: float) -> bool:
        """Whether a cast of the last step lost more than this share: see `StepCounters.is_lost`."""
        return self._counted.is_lost(share, self.cast_scales is not None)

    def health_of_all(self) -> list[dict[str, Any]]:
        """Returns `health()` of all ranks together, the same on each; all ranks must call it.

        Counts are sums over the ranks, `elements` is that of one rank times `ranks`, the number of
        ranks. `scale` and `moved` are those of the first rank.
        """
        return placed(self._counted.health_of_all(), self.manifest.get("report", []))

    @functools.cached_property
    def _counted(self) -> StepCounters:
        is_part = any(argument.get("whole") is not None for argument in self.manifest["args"])
        return StepCounters(self._runtime, self._comm if is_part else None, self.manifest["device"])

    def _check_donation(self, arrays: Sequence[Any]) -> None:
        ids = [id(array) for array in arrays if isinstance(array, _runtime.Array)]
        if len(set(ids)) == len(ids):
            return
        for array, argument in zip(arrays, self.args, strict=False):
            if argument["alias_result"] is not None and ids.count(id(array)) > 1:
                raise ValueError(
                    f"argument '{argument['name']}' is donated, and the same Array is passed "
                    "for another argument: pass a copy"
                )

    @functools.cached_property
    def manifest(self) -> dict[str, Any]:
        """The artefact's table of contents: arguments, results, commands, report."""
        manifest: dict[str, Any] = json.loads(self._runtime.manifest)
        return manifest

    @functools.cached_property
    def args(self) -> list[dict[str, Any]]:
        """Per argument: name, shape, dtype, role, alias_result, storage.

        The storage is a `Storage` for F32 state whose data are stored narrow, in the given dtype,
        else None.
        """
        args = self._runtime.args[: self._kept.num_args]
        for arg, entry in zip(args, self.manifest["args"], strict=False):
            stored = entry.get("stored")
            arg["storage"] = None if stored is None else Storage(**stored)
        return args

    @functools.cached_property
    def stored(self) -> StoredState:
        """The storage of arguments and results, for all stages of a pipeline."""
        return StoredState(self._kept, self.args, self.results, self.manifest.get("pipeline"))

    @functools.cached_property
    def results(self) -> list[dict[str, Any]]:
        """Per result: name, shape, dtype, alias_arg."""
        return self._runtime.results[: self._kept.num_results]

    @property
    def scales(self) -> Scales:
        """The scales of arguments that the step was compiled with."""
        args = self.manifest["args"][: len(self.args)]
        ranges: list[dict[str, Any] | None] = [None] * len(args)
        for entry in self.assumptions:
            known = {"max", "min", "norms", "frobenius"}
            ranges[entry["index"]] = {key: entry[key] for key in entry.keys() & known}
        return Scales(
            tuple(arg.get("scale_exp") for arg in args),
            tuple(arg["name"] for arg in args),
            tuple(ranges),
            tuple(found and (found[0], found[1]) for found in (arg.get("moments") for arg in args)),
        )

    @property
    def memory(self) -> dict[str, Any]:
        """The bytes of a step by purpose, from the plan.

        `parameters` counts elements; the rest are bytes: `arguments` by role, `state` (parameters
        and moments), `results` outside the memory of arguments, `constants`, the `arena` of
        temporaries, and `peak`, the sum. At most `kept` (activations) and `weights` (casts of
        parameters) of the arena are live from the forward to the backward, and `gradients` from
        there to the update.
        """
        return dict(self.manifest["memory"])

    @property
    def collectives(self) -> list[dict[str, Any]]:
        """The collectives of a step, in the order in which all ranks issue them.

        Per collective: `kind`, `join`, `loc`, `dtype`, `elements` of this rank's source, `groups`
        of ranks, and the bytes that this rank has `sent` when it is done, without headers.
        """
        return collectives(self.manifest, 0 if self._comm is None else self._comm.rank)

    @property
    def assumptions(self) -> list[dict[str, Any]]:
        """The assumptions of the report's proofs, per argument, for `scalify.check_assumptions`."""
        return list(self.manifest["assumptions"])

    @property
    def threads(self) -> int:
        """Threads that a step uses."""
        return self._runtime.threads

    @threads.setter
    def threads(self, count: int) -> None:
        self._runtime.threads = count

    def report(self) -> Report:
        """Returns the scale and format of each value, and why.

        Casts and dots are in every artefact. All other values, facts and chains come from the
        artefact if it was compiled with report="full", else from compiling again up to Precision; a
        loaded artefact without them has the brief rows only.
        """
        section = self.manifest["sections"].get("report")
        load = self._explain if section is None else lambda: read_section(self._artefact, section)
        calls = [
            {
                "name": command["name"],
                "location": command["loc"],
                "by": "xla" if "program" in command else "python",
            }
            for command, _ in commands_of(self.manifest)
        ]
        return Report(self.manifest.get("report", []), load, calls=calls)

    def health(self, *arrays: Any) -> list[dict[str, Any]]:
        """Returns per cast: cast, op, loc, format, and counts of the last step.

        `elements` were cast; `saturated` of them exceeded the format's largest value, `flushed`
        were not zero and became zero, `zeros` were zero, `nans` were NaN or infinite, and `top`
        were at least a sixteenth of the largest value, or NaN or infinite: a scale 4 binades lower
        would clip them. A cast in a loop counts all iterations; `each` is the elements of one
        iteration, and `names` are JAX's for its place. `scale` is the divisor of the values, to 8
        bits; about the geometric mean if a loop has several, and None if each block or row has its
        own. `moved` is log2 of the scale over that of the step before, 0 if one is unknown. If a
        scale is measured, a tensor that grows or shrinks as a whole clips nothing: only `moved`
        shows it.

        Args:
            *arrays: none, or the step's current arguments: then a row follows for each assumption
                of the artefact that they violate: `assumption` (the argument's name), `what` was
                measured, its `value` and the `bound`. Arrays without assumptions are not read.

        Raises:
            ValueError: the number of arrays differs from that of the step's arguments.
        """
        rows = placed(self._runtime.health(), self.manifest.get("report", []))
        if not arrays:
            return rows
        if len(arrays) != len(self.args):
            raise ValueError(
                f"the step takes {len(self.args)} arguments, not {len(arrays)}: their assumptions "
                "are by position"
            )
        return [*rows, *violated_assumptions(self.assumptions, arrays)]

    def put(self, array: Any) -> _runtime.Array:
        """Returns a copy of an array in the memory of the step's device.

        A step on a GPU reads the copy in place, but copies a host array in each step. Donated
        arrays need not be put: they stay on the GPU after their first step.
        """
        return self._runtime.put(array)

    def profile(self) -> list[dict[str, Any]]:
        """Returns name, calls, nanoseconds, bytes and flops per command since `profiling(True)`."""
        return self._runtime.profile()

    def profiling(self, on: bool) -> None:
        """Switches per-command timing on (clearing earlier times) or off."""
        self._is_profiling = on
        self._runtime.set_profiling(on)

    @property
    def trace(self) -> str:
        """The calls that a null device has recorded, one a line; "" on other devices."""
        return self._runtime.trace

    @property
    def artefact(self) -> bytes:
        """The bytes that `save` writes."""
        return self._artefact

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the artefact, which `load` and `scalify-run` read."""
        pathlib.Path(path).write_bytes(self._artefact)


def load(path: str | os.PathLike[str], threads: int = 0, device: str | None = None) -> Executable:
    """Loads an artefact from a file; `threads` and `device` as for `Executable`.

    Raises:
        OSError: the file cannot be read.
        RuntimeError: it is damaged, or this machine cannot run it.
    """
    return Executable(pathlib.Path(path).read_bytes(), threads, device=device)


def compile_text(
    text: str,
    options: dict[str, Any],
    threads: int = 0,
    device: str | None = None,
    quiet: bool = False,
) -> Executable:
    """Compiles StableHLO text with the compiler's own options; the rest as for `Executable`.

    With `quiet`, no warning is issued.

    Raises:
        ValueError: the target makes no executable.
        scalify.CompileError: the text or the options are invalid.
    """
    artefact, diagnostics = build(text, options, quiet)
    return Executable(artefact, threads, diagnostics, explain(text, options), device)
