"""Uses of the wrapper: functions of `jit`, which is `jax.jit` or `scalify.jit`."""

from __future__ import annotations

import concurrent.futures as futures
import dataclasses
import functools
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from drop_in_entry import Entry, theirs

__all__ = ["ENTRIES"]

ENTRIES: list[Entry] = []


def entry(
    group: str, what: str, differs: str = "", refused: str = ""
) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    def add(run: Callable[[Any], Any]) -> Callable[[Any], Any]:
        ENTRIES.append(Entry(group, what, run, differs, refused))
        return run

    return add


W = "Calls and decorators"


def _double(x: Any, n: Any = 2) -> Any:
    """Returns a multiple."""
    return x * n


@entry(W, "`jit(f)(x)`, of `jax.Array`s")
def _(jit: Any) -> Any:
    return jit(_double)(jnp.ones(3))


@entry(W, "numpy arrays and Python numbers as arguments, donated")
def _(jit: Any) -> Any:
    return jit(lambda s, x: {"w": s["w"] + x}, donate_argnums=0)({"w": np.ones(3, "f4")}, 2)


@entry(
    W,
    "numpy arrays as arguments, none donated",
    differs="Results are numpy arrays too; `jax.jit` gives `jax.Array`s. An argument that is a "
    "`jax.Array`, or one that is donated, makes all results `jax.Array`s.",
)
def _(jit: Any) -> Any:
    return np.asarray(jit(_double)(np.ones(3, "f4")))


@entry(W, "float64 and int64 of numpy without `jax_enable_x64`")
def _(jit: Any) -> Any:
    return jit(lambda x, n: x * n, donate_argnums=0)(np.float64([1.5, 2.5]), np.int64([2, 3]))


@entry(W, "keyword arguments, defaults, `*args`, `**kwargs`")
def _(jit: Any) -> Any:
    def f(x: Any, y: Any = 3.0, *rest: Any, z: Any = 1.0, **more: Any) -> Any:
        return x * y + z + sum(rest) + more.get("extra", 0)

    run, x = jit(f), jnp.ones(2)
    return run(x), run(x, y=2.0), run(x, 1.0, x, x, z=x, extra=x)


@entry(W, "`@jit(...)` with options only: a decorator")
def _(jit: Any) -> Any:
    @jit(static_argnames="n")
    def f(x: Any, n: int) -> Any:
        return x * n

    return f(jnp.ones(2), n=3), f.__name__


@entry(W, "`@functools.partial(jit, static_argnums=0)` on a method")
def _(jit: Any) -> Any:
    class Model:
        size = 3

        @functools.partial(jit, static_argnums=0)
        def scaled(self, x: Any) -> Any:
            return x * self.size

    return Model().scaled(jnp.ones(2))


@entry(W, "`@jit` on a method of a pytree class, and on a static method")
def _(jit: Any) -> Any:
    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Model:
        w: Any

        @jit
        def scaled(self, x: Any) -> Any:
            return x * self.w

        @staticmethod
        @jit
        def doubled(x: Any) -> Any:
            return x * 2

    return Model(jnp.ones(2)).scaled(jnp.ones(2)), Model.doubled(jnp.ones(2))


@entry(W, "`jit(functools.partial(f, n=3))`")
def _(jit: Any) -> Any:
    return jit(functools.partial(_double, n=3))(jnp.ones(2))


@entry(W, "a function under `functools.wraps`, `jax.named_call`, `jax.checkpoint`")
def _(jit: Any) -> Any:
    @functools.wraps(_double)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return _double(*args, **kwargs)

    x = jnp.ones(2)
    return (
        jit(wrapped, static_argnames="n")(x, n=3),
        jit(jax.named_call(_double, name="twice"))(x),
        jit(jax.checkpoint(_double))(x),
    )


@entry(W, "an object with `__call__`, a lambda, a bound method")
def _(jit: Any) -> Any:
    class Scale:
        def __call__(self, x: Any) -> Any:
            return x * 3

        def half(self, x: Any) -> Any:
            return x / 2

    x = jnp.ones(2)
    return jit(Scale())(x), jit(lambda x: x + 1)(x), jit(Scale().half)(x)


@entry(W, "a function that calls `jax.jit`, `jax.grad`, `jax.vmap` inside")
def _(jit: Any) -> Any:
    inner = jax.jit(lambda x: jnp.sum(x**2))
    return jit(lambda x: jax.vmap(jax.grad(inner))(x))(jnp.ones((2, 3)))


@entry(W, "`static_argnums` that are negative; by name and by position")
def _(jit: Any) -> Any:
    run = jit(lambda x, n: x * n, static_argnums=-1)
    named = jit(lambda x, n: x * n, static_argnames=("n",))
    return run(jnp.ones(2), 3), named(jnp.ones(2), n=4), named(jnp.ones(2), 5)


@entry(W, "one trace for a static value, another for another one")
def _(jit: Any) -> Any:
    traces = []

    def f(x: Any, n: int) -> Any:
        traces.append(n)
        return x * n

    run = jit(f, static_argnums=1)
    for n in (2, 2, 3, 2):
        run(jnp.ones(2), n)
    return sorted(set(traces)), len(traces)


@entry(W, "an unhashable static argument is an error (ValueError)")
def _(jit: Any) -> Any:
    try:
        jit(lambda x, n: x, static_argnums=1)(jnp.ones(2), [1])
    except ValueError as error:
        return "hashable" in str(error)
    return "no error"


@entry(W, "a leaf that is no array is an error (TypeError) with its path")
def _(jit: Any) -> Any:
    try:
        jit(lambda s: s["a"])({"a": jnp.ones(2), "b": {"c": "text"}})
    except TypeError as error:
        return "['b']['c']" in str(error)
    return "no error"


@entry(W, "an array of objects, strings or dates is an error (TypeError) with its path")
def _(jit: Any) -> Any:
    run = jit(lambda d: d["x"])
    seen = []
    for array in (np.array([None, 2]), np.array(["a"]), np.array(["2020-01-01"], "M8[D]")):
        try:
            run({"x": array})
        except TypeError as error:
            seen.append("d['x']" in str(error))
    return seen


@entry(W, "an int that does not fit its type is an error (OverflowError) with its path")
def _(jit: Any) -> Any:
    try:
        jit(lambda d: d["x"] + 1)({"x": 2**40})
    except OverflowError as error:
        return "d['x']" in str(error)
    return "no error"


@entry(W, "results without elements, of a callback as well")
def _(jit: Any) -> Any:
    calls = []

    def back(x: Any) -> Any:
        calls.append(1)
        return np.zeros((0, 2), np.float32)

    shape = jax.ShapeDtypeStruct((0, 2), jnp.float32)
    run = jit(lambda x: jax.experimental.io_callback(back, shape, x))
    return run(jnp.ones(3)), jit(lambda x: x[:0])(jnp.ones(3)), len(calls)


@entry(W, "`keep_unused=True`, `inline=True`; an argument that is not used")
def _(jit: Any) -> Any:
    return jit(lambda x, y: x, keep_unused=True, inline=True)(jnp.ones(2), jnp.ones(3))


@entry(W, "`None`, tuples, dictionaries, dataclasses, named tuples as arguments and results")
def _(jit: Any) -> Any:
    tree = (None, {"a": jnp.ones(2), "b": [jnp.zeros(1), None]}, optax.EmptyState())
    return jit(lambda t: (t, None))(tree)


@entry(W, "Python numbers and weak types: `{'n': 0}` traced once")
def _(jit: Any) -> Any:
    traces = []

    def f(state: Any, x: Any) -> Any:
        traces.append(1)
        return {"n": state["n"] + 1, "t": state["t"] * 0.5, "w": state["w"] + x}

    run, state = jit(f, donate_argnums=0), {"n": 0, "t": 1.0, "w": jnp.ones(3)}
    for _ in range(3):
        state = run(state, jnp.ones(3))
    weak = jax.tree.map(lambda leaf: bool(leaf.weak_type), state)
    return len(traces), state, weak


@entry(W, "new shapes trace again")
def _(jit: Any) -> Any:
    run = jit(_double)
    return run(jnp.ones(2)), run(jnp.ones(3)), run(jnp.ones((2, 2))), run(jnp.arange(2))


@entry(W, "random keys of `jax.random.key` and `PRNGKey` in and out")
def _(jit: Any) -> Any:
    def f(key: Any, old: Any) -> Any:
        key, sub = jax.random.split(key)
        return key, jax.random.uniform(sub, (3,)), jax.random.bits(old, (2,))

    key, *rest = jit(f, donate_argnums=0)(jax.random.key(1), jax.random.PRNGKey(2))
    return jax.random.key_data(key), rest


@entry(W, "bfloat16, float16, int8, uint32, bool arrays")
def _(jit: Any) -> Any:
    kinds = (jnp.bfloat16, jnp.float16, jnp.int8, jnp.uint32, jnp.bool_)
    return jit(lambda xs: [x.T for x in xs])([jnp.ones((2, 3), kind) for kind in kinds])


@entry(
    W,
    "a conversion to bfloat16 or float16 and back",
    differs="Rounds, as the function does op by op. `jax.jit` may omit the rounding "
    "(`xla_allow_excess_precision`, on by default), and then the results differ.",
)
def _(jit: Any) -> Any:
    x = jnp.asarray([1.0, 1.001, 3.14159], jnp.float32)
    for dtype in (jnp.bfloat16, jnp.float16):
        back = jit(lambda x, dtype=dtype: x.astype(dtype).astype(jnp.float32) * 1)(x)
        # Either way within a rounding; which of the two ours gives is a test of its own.
        assert jnp.all(jnp.abs(back - x) <= x * jnp.finfo(dtype).eps)
    return back.dtype


@entry(W, "a sum in bfloat16", differs="Sums in F32 and rounds once; `jax.jit` each partial sum.")
def _(jit: Any) -> Any:
    x = jnp.full(40, 1 / 3, jnp.bfloat16)
    total = jit(lambda x: jax.lax.reduce(x, x[0] * 0, jax.lax.add, (0,)))(x)
    assert abs(float(total) / 40 / float(x[0]) - 1) <= 40 * jnp.finfo(x.dtype).eps  # each sum's
    return total.dtype


@entry(W, "arrays without elements and of rank 0")
def _(jit: Any) -> Any:
    return jit(lambda a, b: (a + 1, b + 1), donate_argnums=(0, 1))(jnp.ones((0, 3)), jnp.ones(()))


@entry(W, "`jit(f).__name__`, `__doc__`, `__wrapped__`")
def _(jit: Any) -> Any:
    run = jit(_double)
    return run.__name__, run.__doc__, run.__wrapped__ is _double


@entry(
    W,
    "`pickle.dumps(jit(f))`",
    differs="`jax.jit` functions do not pickle (JAX 0.10). `scalify.jit` pickles the function and "
    "the options, and compiles again.",
)
def _(jit: Any) -> Any:
    run = jit(_double)
    return (run if jit is theirs else pickle.loads(pickle.dumps(run)))(jnp.ones(2))


@entry(W, "`jit(f).clear_cache()`")
def _(jit: Any) -> Any:
    run = jit(_double)
    first = run(jnp.ones(2))
    run.clear_cache()
    return first, run(jnp.ones(2))


@entry(W, "called by several threads")
def _(jit: Any) -> Any:
    run, x = jit(lambda x: jnp.tanh(x @ x)), jnp.ones((8, 8)) / 8
    run(x)
    with futures.ThreadPoolExecutor(4) as pool:
        return [one.sum() for one in pool.map(run, [x * k for k in range(8)])]


D = "Donation"


@entry(D, "a donated `jax.Array` is deleted: `is_deleted()`, RuntimeError at its use")
def _(jit: Any) -> Any:
    x = jnp.ones(3)
    y = jit(lambda x: x + 1, donate_argnums=0)(x)
    try:
        np.asarray(x)
    except RuntimeError as error:
        return y, x.is_deleted(), str(error)
    return "no error"


@entry(
    D,
    "a deleted array as argument is an error",
    differs="Always a RuntimeError, `Array has been deleted`; `jax.jit` may raise XLA's "
    "ValueError.",
)
def _(jit: Any) -> Any:
    x, run = jnp.ones(3), jit(lambda x: x + 1, donate_argnums=0)
    run(x)
    try:
        run(x)
    except (RuntimeError, ValueError) as error:
        return "deleted" in str(error), jit is theirs or isinstance(error, RuntimeError)
    return "no error"


@entry(D, "`donate_argnames`; other arguments stay")
def _(jit: Any) -> Any:
    x, y = jnp.ones(3), jnp.ones(3)
    z = jit(lambda x, y: x + y, donate_argnames="x")(x=x, y=y)
    return z, x.is_deleted(), y.is_deleted()


@entry(D, "the result lies in the donated array's memory")
def _(jit: Any) -> Any:
    x, run = jnp.ones((64, 64)), jit(lambda x: x + 1, donate_argnums=0)
    place = x.unsafe_buffer_pointer()
    return run(x).unsafe_buffer_pointer() == place


@entry(D, "a view by `np.asarray` keeps its values")
def _(jit: Any) -> Any:
    x = jnp.ones(300)
    view = np.asarray(x)
    y = jit(lambda x: x + 1, donate_argnums=0)(x)
    return view, y, x.is_deleted()


@entry(D, "one array passed twice, once donated, is an error")
def _(jit: Any) -> Any:
    x = jnp.ones(3)
    try:
        jit(lambda a, b: (a + b, a), donate_argnums=0)(x, x)
    except jax.errors.JaxRuntimeError as error:
        return "donated" in str(error)
    return "no error"


@entry(D, "a donated array without a result of its type stays, with JAX's warning")
def _(jit: Any) -> Any:
    x = jnp.ones(3)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        y = jit(lambda x: x[:1], donate_argnums=0)(x)
    return y, x.is_deleted(), any("donated buffers were not usable" in str(w.message) for w in said)


@entry(D, "results do not alias: neither later steps nor other results change them")
def _(jit: Any) -> Any:
    run = jit(lambda x: (x + 1, x * 2), donate_argnums=0)
    first, second = run(jnp.ones(4))
    third, _ = run(first)
    return second, third


A = "Ahead of time"


@entry(A, "`jit(f).lower(*args).compile()(*args)` of pytrees")
def _(jit: Any) -> Any:
    state = {"w": jnp.ones(3)}
    compiled = jit(lambda s, x: ({"w": s["w"] + x}, x)).lower(state, jnp.ones(3)).compile()
    return compiled(state, jnp.ones(3))


@entry(A, "`.lower` of `jax.ShapeDtypeStruct`s")
def _(jit: Any) -> Any:
    shape = jax.ShapeDtypeStruct((3,), jnp.float32)
    return jit(_double).lower(shape).compile()(jnp.ones(3))


@entry(A, "`lowered.in_tree`, `.out_tree`, `.out_info`; `compiled.in_tree`")
def _(jit: Any) -> Any:
    lowered = jit(lambda s: {"y": s["w"]}).lower({"w": jnp.ones(3)})
    out = jax.tree.map(lambda info: (info.shape, info.dtype), lowered.out_info)
    return str(lowered.in_tree), str(lowered.out_tree), out, str(lowered.compile().in_tree)


@entry(A, "`jit(f).trace(x)`: `.jaxpr`, `.out_info`, `.lower()`")
def _(jit: Any) -> Any:
    traced = jit(_double).trace(jnp.ones(3))
    return str(traced.jaxpr), str(traced.out_info), traced.lower().compile()(jnp.ones(3))


@entry(A, "`lowered` and `compiled`: `.args_info`, `.out_info`, `.cost_analysis()`")
def _(jit: Any) -> Any:
    lowered = jit(lambda s: {"y": s["w"] @ s["w"]}).lower({"w": jnp.ones((3, 3))})
    compiled = lowered.compile()
    infos = [str(one.args_info) + str(one.out_info["y"].shape) for one in (lowered, compiled)]
    return infos, [one.cost_analysis()["flops"] > 53 for one in (lowered, compiled)]


@entry(A, "static arguments are left out of the compiled call")
def _(jit: Any) -> Any:
    lowered = jit(lambda x, n: x * n, static_argnums=1).lower(jnp.ones(3), 4)
    return lowered.compile()(jnp.ones(3))


@entry(A, "a compiled step refuses other types (TypeError)")
def _(jit: Any) -> Any:
    compiled = jit(_double).lower(jnp.ones(3)).compile()
    try:
        compiled(jnp.ones(4))
    except TypeError:
        return True
    return "no error"


@entry(A, "`jit(f).eval_shape(x)`")
def _(jit: Any) -> Any:
    return str(jit(_double).eval_shape(jnp.ones(3)))


@entry(
    A,
    "`lowered.as_text()`",
    differs="StableHLO with locations, as `as_text(debug_info=True)` of JAX, from which "
    "`scalify.compile` takes them.",
)
def _(jit: Any) -> Any:
    return "stablehlo.multiply" in jit(_double).lower(jnp.ones(3)).as_text()


@entry(A, "`jit(f).trace(x).lower(lowering_platforms=('cpu',))`")
def _(jit: Any) -> Any:
    lowered = jit(_double).trace(jnp.ones(3)).lower(lowering_platforms=("cpu",))
    return lowered.compile()(jnp.ones(3))


@entry(
    A,
    "`jax.export.export(jit(f))(x)`",
    refused="jax.export cannot export '_double', which XLA does not run: export "
    "jax.jit(scalify.transform(f, recipe=...))",
)
def _(jit: Any) -> Any:
    return jax.export.export(jit(_double))(jnp.ones(3)).nr_devices


T = "Transformations around it"
_INSIDE = (
    "The function is inlined into the enclosing function, and compiled with the enclosing step's "
    "recipe, or under JAX alone with none, with a warning if its own recipe would cast. "
    "`scalify.transform` keeps its recipe inside `jax.jit` and `jax.vmap`, `step.call` inside "
    "`jax.jit`."
)


@entry(T, "`jax.jit` around it", differs=_INSIDE)
def _(jit: Any) -> Any:
    run = jit(_double)
    return jax.jit(lambda x: run(x) + 1)(jnp.ones(2))


@entry(T, "`jit` around it: static arguments, donation, closures")
def _(jit: Any) -> Any:
    @jit
    def outer(x: Any, s: Any) -> Any:
        inner = jit(lambda y, n, s: (y * n + x, s + 1), static_argnums=1, donate_argnums=2)
        return inner(x, 3, s), jit(lambda y: y * x)(2.0)

    return outer(jnp.ones(2), jnp.arange(2))


@entry(T, "`jax.grad`, `jax.vmap`, `jax.hessian` of it")
def _(jit: Any) -> Any:
    run = jit(lambda x: jnp.sum(x**3))
    x = jnp.arange(4.0)
    return jax.grad(run)(x), jax.vmap(run)(x[:, None]), jax.hessian(run)(x)


@entry(T, "`jax.lax.scan`, `jax.checkpoint`, `jax.eval_shape`, `jax.make_jaxpr` over it")
def _(jit: Any) -> Any:
    run = jit(lambda c, x: (c + x, c * x))
    kept = jax.grad(jax.checkpoint(lambda x: jnp.sum(run(x, x)[1])))(jnp.ones(2))
    shape = jax.eval_shape(run, jnp.ones(2), jnp.ones(2))[0].shape
    jax.make_jaxpr(run)(jnp.ones(2), jnp.ones(2))
    return jax.lax.scan(run, 0.0, jnp.arange(3.0)), kept, jnp.zeros(shape)


@entry(T, "`jit(jax.grad(f))`, `jit(jax.vmap(f))`")
def _(jit: Any) -> Any:
    x = jnp.arange(6.0).reshape(2, 3)
    return jit(jax.grad(lambda x: jnp.sum(x**2)))(x), jit(jax.vmap(jnp.sum))(x)


S = "Devices, debugging, profiling"


@entry(S, "arguments committed to a device; results are committed")
def _(jit: Any) -> Any:
    x = jax.device_put(jnp.ones(2), jax.devices()[0])
    y = jit(_double)(x)
    return y, y.committed, jit(_double)(jnp.ones(2)).committed


@entry(S, "`jax.block_until_ready(step(...))`")
def _(jit: Any) -> Any:
    return jax.block_until_ready(jit(_double)(jnp.ones(2)))


@entry(S, "`with jax.profiler.TraceAnnotation(...)`, `jax.named_scope` inside")
def _(jit: Any) -> Any:
    def f(x: Any) -> Any:
        with jax.named_scope("twice"):
            return x * 2

    with jax.profiler.TraceAnnotation("step"):
        return jit(f)(jnp.ones(2))


@entry(S, "`with jax.disable_jit()`: values in the function are arrays")
def _(jit: Any) -> Any:
    def f(x: Any) -> Any:
        return 2 * x if x.sum() > 0 else -x

    with jax.disable_jit(), warnings.catch_warnings():
        warnings.simplefilter("error")
        return jit(f)(jnp.ones(2)), jit(f)(-jnp.ones(2))


@entry(S, "`jax.config.jax_debug_nans`, `jax_debug_infs`: FloatingPointError")
def _(jit: Any) -> Any:
    for flag, value in ((jax.debug_nans, -1.0), (jax.debug_infs, 0.0)):
        with flag(True), pytest.raises(FloatingPointError, match="invalid value"):
            jit(jnp.log)(jnp.float32(value))


@entry(S, "an error in the function while it is traced comes as it is")
def _(jit: Any) -> Any:
    def f(x: Any) -> Any:
        if x > 0:
            return x
        return -x

    try:
        jit(f)(jnp.float32(1))
    except jax.errors.TracerBoolConversionError:
        return True
    return "no error"
