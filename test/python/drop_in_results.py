"""Uses of a step's results: functions of the (state, loss) that two steps return."""

from __future__ import annotations

import copy
import dataclasses
import functools
import io
import pathlib
import pickle
import tempfile
from collections.abc import Callable
from typing import Any

import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np
import optax
from drop_in_entry import Entry

import scalify

__all__ = ["USES", "results"]

USES: list[Entry] = []


def use(group: str, what: str, run: Callable[[Any], Any], differs: str = "") -> None:
    USES.append(Entry(group, what, run, differs))


OPTIMIZER = optax.adam(1e-2)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    """A state like Flax's TrainState, whose step starts as Python's 0."""

    step: Any
    params: Any
    opt: Any


def init() -> State:
    draw = np.random.default_rng(0)
    params = {
        "w": jnp.asarray(draw.normal(size=(64, 64)), jnp.float32) / 8,
        "b": jnp.full(64, 0.25),
    }
    return State(0, params, OPTIMIZER.init(params))


def batch() -> jax.Array:
    return jnp.asarray(np.random.default_rng(1).normal(size=(16, 64)), jnp.float32)


def evaluate(params: Any, x: Any) -> Any:
    return jnp.mean(jnp.square(jnp.tanh(x @ params["w"] + params["b"]) - x))


def train(state: State, x: Any) -> tuple[State, Any]:
    value, grads = jax.value_and_grad(evaluate)(state.params, x)
    updates, opt = OPTIMIZER.update(grads, state.opt, state.params)
    params = optax.apply_updates(state.params, updates)
    return State(state.step + 1, params, opt), value


@functools.cache
def results(recipe: str | None) -> tuple[State, Any]:
    """Returns the results of two steps under a recipe, or under jax.jit for None."""
    run: Any = (
        jax.jit(train, donate_argnums=0)
        if recipe is None
        else scalify.jit(train, recipe, donate_argnums=0)
    )
    state, _ = run(init(), batch())
    return run(state, batch())


# Results: state that was donated, and others.

R = "Uses of results"
use(R, "`jax.jit(evaluate)(params, x)`", lambda r: jax.jit(evaluate)(r[0].params, batch()))
use(R, "`jax.grad(evaluate)(params, x)`", lambda r: jax.grad(evaluate)(r[0].params, batch()))
use(R, "`jax.vmap(f)(w)`", lambda r: jax.vmap(jnp.sum)(r[0].params["w"]))
use(
    R,
    "`jax.lax.scan`, `cond`, `while_loop` over them",
    lambda r: jax.lax.scan(lambda c, w: (c + w, c), r[0].params["b"], r[0].params["w"])[0],
)
use(R, "`jax.eval_shape(f, params)`", lambda r: str(jax.eval_shape(lambda p: p, r[0].params)))
use(R, "`jax.make_jaxpr(f)(params)`", lambda r: str(jax.make_jaxpr(evaluate)(r[0].params, batch())))
use(
    R,
    "`isinstance(leaf, jax.Array)`",
    lambda r: [isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(r)],
)
use(R, "`optax.tree.norm(params)`", lambda r: optax.tree.norm(r[0].params))
use(R, "`optax.global_norm(params)`", lambda r: optax.global_norm(r[0].params))
use(
    R,
    "`optax.incremental_update(params, ema, 0.1)`",
    lambda r: optax.incremental_update(r[0].params, init().params, 0.1),
)
use(
    R,
    "`optax.tree.add`, `sub`, `scale`, `vdot`, `cast`",
    lambda r: (
        optax.tree.add(r[0].params, r[0].params),
        optax.tree.sub(r[0].params, r[0].params),
        optax.tree.scale(2.0, r[0].params),
        optax.tree.vdot(r[0].params, r[0].params),
        optax.tree.cast(r[0].params, jnp.bfloat16),
    ),
)
use(
    R,
    "`optax.apply_updates(params, params)`",
    lambda r: optax.apply_updates(r[0].params, r[0].params),
)
use(
    R,
    "`state.step % 2`, `+`, `-`, `*`, `/`, `//`, `**`, `@`, `-w`, `abs(w)`",
    lambda r: (
        r[0].step % 2,
        r[0].params["w"] + 1,
        1 - r[0].params["w"],
        2 * r[0].params["w"],
        r[0].params["w"] / 3,
        r[0].params["b"] // 1,
        r[0].params["b"] ** 2,
        r[0].params["w"] @ r[0].params["w"],
        -r[0].params["w"],
        abs(r[0].params["w"]),
    ),
)
use(
    R,
    "`==`, `<`, `bool`, `if loss < 1`",
    lambda r: (r[0].params["w"] == 0, r[0].params["w"] < 0, bool(r[1] < 1e9)),
)
use(
    R,
    '`f"{state.step:5d}"`, `f"{loss:.4f}"`, `int`, `float`',
    lambda r: (f"{r[0].step:5d}", f"{r[1]:.4f}", int(r[0].step), float(r[1])),
)
use(
    R,
    "`range(state.step)`, `xs[state.step]`",
    lambda r: (list(range(r[0].step)), [1, 2, 3][r[0].step]),
)
use(
    R,
    "`w[1:, 0]`, `w[mask]`, `w.at[0].set(1)`, `w.T`, `w.reshape`, `w.astype`, `w.sum()`",
    lambda r: (
        r[0].params["w"][1:, 0],
        r[0].params["b"][np.arange(3)],
        r[0].params["w"].at[0].set(1),
        r[0].params["w"].T,
        r[0].params["w"].reshape(-1),
        r[0].params["w"].astype(jnp.bfloat16),
        r[0].params["w"].sum(),
    ),
)
use(
    R,
    "`len(w)`, iteration, `w.tolist()`, `w.item()`",
    lambda r: (
        len(r[0].params["b"]),
        [float(v) for v in r[0].params["b"]],
        r[0].params["b"].tolist(),
        r[1].item(),
    ),
)
use(
    R,
    "`jnp.stack`, `where`, `concatenate`, `asarray`, `einsum`, `linalg.norm`",
    lambda r: (
        jnp.stack([r[0].params["b"]] * 2),
        jnp.where(r[0].params["w"] > 0, 1, 0),
        jnp.concatenate([r[0].params["w"], r[0].params["w"]]),
        jnp.asarray(r[0].params["w"]),
        jnp.einsum("ij,j->i", r[0].params["w"], r[0].params["b"]),
        jnp.linalg.norm(r[0].params["w"]),
    ),
)
use(
    R,
    "`np.asarray(w)`, `np.mean(w)`, `np.sqrt(np.abs(w))`",
    lambda r: (
        np.asarray(r[0].params["w"]),
        np.mean(r[0].params["w"], dtype=np.float64).round(6),
        np.sqrt(np.abs(r[0].params["w"])),
    ),
)
use(R, "`opt[0].count`, `opt[0].mu['w'][0]`", lambda r: (r[0].opt[0].count, r[0].opt[0].mu["w"][0]))
use(
    R,
    "`.shape`, `.dtype`, `.ndim`, `.size`",
    lambda r: [(w.shape, w.dtype, w.ndim, w.size) for w in jax.tree.leaves(r)],
)
use(
    R,
    "`.weak_type`, `.committed`, `.sharding`, `.devices()`",
    lambda r: [
        (w.weak_type, w.committed, str(w.sharding), str(w.devices())) for w in jax.tree.leaves(r)
    ],
)
use(
    R,
    "`jax.device_put(params)`, `jax.device_get(params)`",
    lambda r: (jax.device_put(r[0].params), jax.device_get(r[0].params)),
)
use(R, "`jax.block_until_ready(results)`", lambda r: jax.block_until_ready(r))
use(
    R,
    "`jnp.array(w, copy=True)`, `jax.tree.map(jnp.copy, params)`",
    lambda r: jax.tree.map(jnp.copy, r[0].params),
)
use(
    R,
    "`copy.deepcopy(state)`, `copy.copy`",
    lambda r: (copy.deepcopy(r[0]), copy.copy(r[0].params["w"])),
)
use(R, "`repr(count)`, `print(step)`", lambda r: (repr(r[0].opt[0].count), str(r[0].step)))
use(
    R,
    "`jax.tree.map(lambda a, b: ..., params, before)`",
    lambda r: jax.tree.map(lambda a, b: a - b, r[0].params, init().params),
)
use(
    R,
    "`jax.tree.structure(state)`, `jax.tree.leaves(state)`",
    lambda r: (str(jax.tree.structure(r[0])), len(jax.tree.leaves(r[0]))),
)
use(
    R,
    "`jax.flatten_util.ravel_pytree(params)`",
    lambda r: jax.flatten_util.ravel_pytree(r[0].params)[0],
)
use(R, "metrics kept in a list, `np.mean(losses)`", lambda r: np.mean([r[1], r[1]]))

C = "Checkpoints"
use(C, "`pickle.dumps(state)`", lambda r: pickle.loads(pickle.dumps(r[0])))
use(
    C,
    "`flax.serialization.to_bytes`, `from_bytes`",
    lambda r: flax.serialization.from_bytes(
        jax.tree.map(jnp.zeros_like, r[0].params), flax.serialization.to_bytes(r[0].params)
    ),
)
use(
    C, "`flax.serialization.to_state_dict`", lambda r: flax.serialization.to_state_dict(r[0].params)
)


def _npz(found: Any) -> Any:
    file = io.BytesIO()
    np.savez(file, *jax.tree.leaves(found[0]))
    file.seek(0)
    with np.load(file) as loaded:
        return [loaded[name] for name in loaded.files]


use(C, "`np.savez(file, *jax.tree.leaves(state))`", _npz)


def _orbax(found: Any) -> Any:
    import orbax.checkpoint as ocp  # late: an import of seconds

    tree = {"params": found[0].params, "step": found[0].step, "mu": found[0].opt[0].mu}
    with tempfile.TemporaryDirectory() as folder, ocp.StandardCheckpointer() as keeper:
        path = pathlib.Path(folder) / "1"
        keeper.save(path, tree)
        keeper.wait_until_finished()
        like = jax.tree.map(lambda w: jax.ShapeDtypeStruct(w.shape, w.dtype), tree)
        return keeper.restore(path, like)


use(C, "`orbax.checkpoint.StandardCheckpointer`: save and restore", _orbax)
