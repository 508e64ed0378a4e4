"""Random typed programs: what hypothesis draws, shrinks and prints as a JAX function.

A program is data: steps in order, each an op of `random_ops`, the places of its operands and its
parameters. So it can be run under `jax.jit`, in F64, differentiated, and read: `str(program)` is
Python that does the same.

Two implementations may round a sum or a transcendental function differently, and a comparison of
such values may turn out either way. A `Value` knows whether its bits are defined
(`is_exact`: moves, integers, one correctly rounded operation on such operands); only of these
are comparisons, roundings to integers and sorts made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
from hypothesis import strategies as st

__all__ = ["FLOATS", "INTEGERS", "Program", "Step", "Value", "Writer", "eps_of", "programs"]

FLOATS = ("float32", "float16", "bfloat16")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan)
# Of programs under `jax.enable_x64`.
WIDE_FLOATS = ("float64", *FLOATS)
WIDE_INTEGERS = ("int64", "uint64", *INTEGERS)
LARGEST = 8192  # elements of a value


@dataclasses.dataclass(frozen=True)
class Value:
    """Properties of a value: its type, whether its bits are defined, its coarsest rounding."""

    shape: tuple[int, ...]
    dtype: str
    is_exact: bool = True
    eps: float = 0.0
    # A product, which a compiler may contract with a sum behind it.
    is_product: bool = False
    # Grown by products and sums: the log2 of what it may be at most.
    size: float = 2.0

    @property
    def is_float(self) -> bool:
        return self.dtype in WIDE_FLOATS

    @property
    def is_integer(self) -> bool:
        return self.dtype in WIDE_INTEGERS

    @property
    def elements(self) -> int:
        return int(np.prod(self.shape))


def eps_of(dtype: str) -> float:
    """Returns the spacing of 1 and the next larger number of a float type."""
    return float(ml_dtypes.finfo(dtype).eps) if "float" in dtype else 0.0


@dataclasses.dataclass(frozen=True)
class Step:
    """One op: its name, the places of its operands, its parameters, programs of its bodies."""

    op: str
    operands: tuple[int, ...]
    params: tuple[tuple[str, Any], ...]
    value: Value
    bodies: tuple[Program, ...] = ()


@dataclasses.dataclass(frozen=True, repr=False)
class Program:
    """Arguments, steps, and the places of the results."""

    arguments: tuple[Value, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    donated: tuple[int, ...] = ()
    has_special: bool = False
    seed: int = 0
    is_wide: bool = False

    @property
    def values(self) -> list[Value]:
        return [*self.arguments, *(step.value for step in self.steps)]

    def function(
        self, apply: dict[str, Callable[..., Any]], change: Callable[[Step, Any], Any] | None = None
    ) -> Callable[..., tuple[Any, ...]]:
        """Returns the program as a JAX function of its arguments.

        Args:
            apply: the ops by name.
            change: of each operand and each result of each step, in bodies too.
        """

        def run(*arguments: Any) -> tuple[Any, ...]:
            values = list(arguments)
            for step in self.steps:
                bodies = [body.function(apply, change) for body in step.bodies]
                operands = [values[place] for place in step.operands]
                if change:
                    operands = [change(step, operand) for operand in operands]
                result = apply[step.op](*bodies, *operands, **dict(step.params))
                values.append(change(step, result) if change else result)
            return tuple(values[place] for place in self.results)

        return run

    def inputs(self) -> list[np.ndarray]:
        """Returns the arguments: small numbers by the seed, with special ones where asked for."""
        rng = np.random.default_rng(self.seed)
        return [_draw(rng, value, self.has_special) for value in self.arguments]

    def lines(self, indent: str = "    ") -> list[str]:
        lines = []
        first = len(self.arguments)
        for place, step in enumerate(self.steps, first):
            bodies = []
            for number, body in enumerate(step.bodies):
                name = f"body{place}_{number}"
                names = ", ".join(f"v{i}" for i in range(len(body.arguments)))
                lines += [f"{indent}def {name}({names}):", *body.lines(indent + "    ")]
                bodies.append(name)
            operands = [*bodies, *(f"v{i}" for i in step.operands)]
            params = [f"{key}={value!r}" for key, value in step.params]
            call = f"{step.op}({', '.join([*operands, *params])})"
            shape = ",".join(map(str, step.value.shape))
            exact = "" if step.value.is_exact else "~"
            lines.append(f"{indent}v{place} = {call}  # {exact}{step.value.dtype}[{shape}]")
        return [*lines, f"{indent}return {', '.join(f'v{i}' for i in self.results)},"]

    def __repr__(self) -> str:
        names = ", ".join(
            f"v{i}: {value.dtype}{list(value.shape)}" for i, value in enumerate(self.arguments)
        )
        head = f"def program({names}):  # donated {self.donated}, seed {self.seed}"
        notes = (", special values" if self.has_special else "") + (", x64" if self.is_wide else "")
        return "\n".join([head + notes, *self.lines()])


def _draw(rng: np.random.Generator, value: Value, has_special: bool) -> np.ndarray:
    dtype = jnp.dtype(value.dtype)
    if value.dtype == "bool":
        return rng.integers(0, 2, value.shape).astype(bool)
    if not value.is_float:
        info = jnp.iinfo(dtype)
        low = -4 if info.min < 0 else 0
        array = rng.integers(low, 9, value.shape).astype(dtype)
        ends = rng.random(value.shape) < 0.15
        extremes = np.array([info.min, info.max, info.max // 2 + 1], dtype)
        return np.where(ends, rng.choice(extremes, value.shape), array)
    # Quarters: exact in every format, so that equal elements and ties occur.
    coarse = rng.integers(-8, 9, value.shape) / 4
    array = np.where(rng.random(value.shape) < 0.3, coarse, rng.normal(size=value.shape))
    if has_special:
        chosen = rng.random(value.shape) < 0.2
        array = np.where(chosen, rng.choice(SPECIAL, value.shape), array)
    return array.astype(dtype)


class Writer:
    """Writes one program: values so far, and the draws that choose among them."""

    def __init__(
        self,
        draw: Callable[[Any], Any],
        arguments: Sequence[Value],
        depth: int = 0,
        smooth: bool = False,
        wide: bool = False,
    ) -> None:
        self.smooth, self.wide = smooth, wide
        self.floats = WIDE_FLOATS if wide else FLOATS
        self.integers = WIDE_INTEGERS if wide else INTEGERS
        self.draw = draw
        self.arguments = tuple(arguments)
        self.values = list(arguments)
        self.steps: list[Step] = []
        self.depth = depth

    def pick(self, wanted: Callable[[Value], bool] = lambda value: True) -> int | None:
        """Returns the index of a value, more often a late one; None if there is none."""
        places = [i for i, value in enumerate(self.values) if wanted(value)]
        if not places:
            return None
        # Shrinks to the latest, so that programs become chains.
        back: int = self.draw(st.integers(0, min(len(places), 6) - 1))
        return places[-1 - back]

    def integer(self, low: int, high: int) -> int:
        number: int = self.draw(st.integers(low, high))
        return number

    def choice(self, options: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def flag(self) -> bool:
        is_so: bool = self.draw(st.booleans())
        return is_so

    def add(
        self,
        op: str,
        operands: Sequence[int],
        value: Value,
        bodies: Sequence[Program] = (),
        **params: Any,
    ) -> int:
        """Appends a step and returns the index of its value."""
        self.steps.append(Step(op, tuple(operands), tuple(params.items()), value, tuple(bodies)))
        self.values.append(value)
        return len(self.values) - 1

    def finish(self, results: Sequence[int], **others: Any) -> Program:
        return Program(self.arguments, tuple(self.steps), tuple(results), **others)

    def joined(self, *places: int, **changes: Any) -> Value:
        """Returns the first operand's value with what all operands leave to a result."""
        values = [self.values[place] for place in places]
        known = {
            "is_exact": all(value.is_exact for value in values),
            "eps": max(value.eps for value in values),
            "is_product": any(value.is_product for value in values),
            "size": max(value.size for value in values),
        }
        return dataclasses.replace(values[0], **(known | changes))


def _shapes() -> st.SearchStrategy[tuple[int, ...]]:
    dims = st.sampled_from([2, 3, 1, 4, 5, 8, 17, 64, 130])
    return (
        st.lists(dims, min_size=0, max_size=3)
        .map(tuple)
        .filter(lambda shape: np.prod(shape) <= LARGEST // 2)
    )


def _arguments(dtypes: Sequence[str]) -> st.SearchStrategy[list[Value]]:
    value = st.builds(
        lambda shape, dtype: Value(shape, dtype, eps=eps_of(dtype)),
        _shapes(),
        st.sampled_from(list(dtypes)),
    )
    return st.lists(value, min_size=1, max_size=4)


@st.composite
def programs(
    draw: Callable[[Any], Any],
    grow: Callable[[Writer], None],
    dtypes: Sequence[str] = ("float32", "float32", *FLOATS, *INTEGERS, "bool"),
    steps: int = 12,
    smooth: bool = False,
    wide: bool = False,
) -> Program:
    """Draws a program.

    Args:
        draw: hypothesis' draw.
        grow: adds a step to what a writer has, or none: `random_ops.grow`.
        dtypes: of the arguments.
        steps: how many there are at most.
        smooth: whether it is differentiated; if not, arguments may hold infinities and NaN.
        wide: whether there are numbers of 64 bits.
    """
    if wide:
        dtypes = (*WIDE_FLOATS, "float64", *WIDE_INTEGERS, "bool")
    writer = Writer(draw, draw(_arguments(dtypes)), 0, smooth, wide)
    for _ in range(draw(st.integers(1, steps))):
        grow(writer)
    # All values that nothing reads, and the last one.
    read = {place for step in writer.steps for place in step.operands}
    last = len(writer.values) - 1
    results = [i for i in range(last + 1) if i == last or (i not in read and i >= 1)]
    count = len(writer.arguments)
    donated = draw(st.lists(st.integers(0, count - 1), unique=True, max_size=count))
    return writer.finish(
        results,
        donated=tuple(sorted(donated)),
        has_special=not smooth and draw(st.booleans()),
        seed=draw(st.integers(0, 2**16)),
        is_wide=wide,
    )
