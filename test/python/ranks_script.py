"""A training script, to be launched as ranks or alone: `python ranks_script.py train`.

With a folder as a further argument it saves a checkpoint after every step, and resumes the newest.
"""

from __future__ import annotations

import os
import signal
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

import scalify
from scalify import _ranks, checkpoint

STEPS = 4


def main() -> None:
    """Trains a small model whose second matrix is sharded."""
    mode = sys.argv[1]
    mesh = scalify.make_mesh(data=2, tensor=2)
    rng = np.random.default_rng(0)
    params = {
        "first": rng.normal(size=(16, 32)).astype(np.float32),
        "second": rng.normal(size=(32, 8)).astype(np.float32),
    }
    x = rng.normal(size=(STEPS, 8, 16)).astype(np.float32)
    y = rng.normal(size=(STEPS, 8, 8)).astype(np.float32)

    def step(params, x, y):  # type: ignore[no-untyped-def]
        def loss(params):  # type: ignore[no-untyped-def]
            hidden = jnp.tanh(x @ params["first"])
            return jnp.mean((hidden @ params["second"] - y) ** 2)

        value, grads = jax.value_and_grad(loss)(params)
        if mode == "refused":
            value = value + jnp.sum(jax.lax.rng_uniform(0.0, value, x.shape))
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value

    specs = {"first": P(), "second": P("tensor")}
    if mode == "other mesh":
        other = jax.sharding.AbstractMesh((2,), ("data",))
        text = jax.jit(lambda x: x + 1, in_shardings=jax.sharding.NamedSharding(other, P("data")))
        lowered = text.trace(x[0]).lower(lowering_platforms=("cpu",))
        _ranks.compile_on(scalify.Distribution(mesh=mesh), lowered.as_text(), {}, 1, None)
    shardings = {"in_shardings": (specs, P("data"), P("data")), "out_shardings": (specs, P())}
    train = scalify.jit(step, "none", donate_argnums=0, distribution=mesh, threads=1, **shardings)
    plain, state, start = jax.jit(step), params, 0
    folder = sys.argv[2] if len(sys.argv) > 2 else None
    if folder and checkpoint.latest(folder):
        start, state = checkpoint.load(folder, params, jit=train)
        print(f"goes on from step {start}")
    for index in range(STEPS):
        if mode == "dies" and index == 1 and mesh.rank == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        params, wanted = plain(params, x[index], y[index])
        if index < start:
            continue
        # A rank reads its own rows of x alone.
        rows: list[slice] = []

        def part(place: tuple[slice, ...], index: int = index, rows: list[slice] = rows):  # type: ignore[no-untyped-def]
            rows.append(place[0])
            return x[index][place]

        batch = mesh.array(x[index].shape, P("data"), part)
        assert len(rows) == (2 if mesh.comm is None else 1)
        assert mesh.comm is None or rows[0].start == 4 * (mesh.rank // 2)
        state, value = train(state, batch, y[index])
        if folder:
            checkpoint.save(folder, state, index + 1, jit=train)
        # Of a few hundred terms, in another order.
        np.testing.assert_allclose(np.asarray(value), wanted, rtol=1e-5)
    second = state["second"]
    if mesh.comm is not None:
        assert isinstance(second, scalify.Shard)
        assert second.data.shape == (16, 8)
        assert mesh.comm.bytes_sent > 0
        second = second.gather()
    np.testing.assert_allclose(np.asarray(second), params["second"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(np.asarray(state["first"]), params["first"], rtol=0, atol=1e-5)
    print(f"trained on {mesh.size} ranks")


if __name__ == "__main__":
    main()
