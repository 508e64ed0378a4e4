"""Steps that may update in place: state in, state of the same shapes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["PROGRAMS", "Step", "state_of"]

Step = Callable[..., tuple[Any, ...]]

#: By name: the step, and the shapes of its state; F32 numbers, but "i" for integers below 8.
PROGRAMS: dict[str, tuple[Step, tuple[Any, ...]]] = {
    # Scatters whose update reads what they work in.
    "shift up": (lambda x: (x.at[1:].set(x[:-1]),), ((37,),)),
    "shift down": (lambda x: (x.at[:-1].set(x[1:]),), ((37,),)),
    "shift far": (lambda x: (x.at[5:].set(x[:-5]),), ((70000,),)),
    "shift rows": (lambda x: (x.at[:, 1:].set(x[:, :-1]),), ((3, 5, 8),)),
    "shift and add": (lambda x: (x.at[1:].add(x[:-1]),), ((37,),)),
    "shift and multiply": (lambda x: (x.at[1:].multiply(x[:-1]),), ((37,),)),
    "largest of two": (lambda x: (x.at[1:].max(x[:-1]),), ((37,),)),
    "transpose": (lambda x: (x.at[:].set(x.T),), ((5, 5),)),
    "large transpose": (lambda x: (x.at[:].set(x.T),), ((160, 160),)),
    "reverse": (lambda x: (x.at[:].set(x[::-1]),), ((300,),)),
    "every other": (lambda x: (x.at[::2].set(x[1::2]),), ((38,),)),
    "two ends": (
        lambda x: (lambda y: (y.at[0].set(y[-1]),))(x.at[1:].set(x[:-1])),
        ((21,),),
    ),
    "chain": (
        lambda x: (x.at[1:].set(x[:-1]).at[:2].add(x[2:4]).at[3:].set(x[:-3] * 2),),
        ((21,),),
    ),
    "permuted rows": (lambda x, i: (x.at[i].set(x[(i + 3) % 8]), i), ((8, 16), ("i", 8))),
    "added rows": (lambda x, i: (x.at[i].add(x[::-1]), i), ((8, 16), ("i", 8))),
    "places by themselves": (lambda i: (i.at[i].set(i[::-1]),), (("i", 8),)),
    "its own updates": (lambda x, i: (x.at[i].set(x), i), ((8, 4), ("i", 8))),
    "histogram": (lambda n, i: (n.at[i].add(1.0), i), ((8,), ("i", 300))),
    # Slices at places that the data choose.
    "slice at a place": (
        lambda x, i: (lax.dynamic_update_slice(x, 2 * x[3:9], (i[0],)), i),
        ((37,), ("i", 1)),
    ),
    "cache": (
        lambda k, q, i: (
            lax.dynamic_update_slice(k, (q @ k.T @ k)[None, 0], (i[0], 0)),
            q + 1,
            (i + 1) % 8,
        ),
        ((8, 4), (2, 4), ("i", 1)),
    ),
    "written and read": (
        lambda k, q, i: (lambda n: (n, jax.nn.softmax(q @ n.T) @ n, i))(
            lax.dynamic_update_slice(k, q[:1], (i[0], 0))
        ),
        ((8, 4), (2, 4), ("i", 1)),
    ),
    # Other orders of the same elements.
    "selected reverse": (lambda x: (jnp.where(x > 0, x, x[::-1]),), ((301,),)),
    "selected transpose": (lambda x: (jnp.where(x > 0, x, x.T),), ((33, 33),)),
    "roll": (lambda x: (jnp.roll(x, 3),), ((50,),)),
    "roll of rows": (lambda x: (jnp.concatenate([x[:, 1:], x[:, :1]], 1),), ((4, 9),)),
    "pad": (lambda x: (jnp.pad(x[1:], (0, 1)),), ((50,),)),
    "symmetric": (lambda x: ((x + x.T) / 2,), ((24, 24),)),
    "gather": (lambda x, i: (x[i], i), ((8, 16), ("i", 8))),
    "sorted": (lambda x: (jnp.sort(x),), ((40,),)),
    "running sum": (lambda x: (jnp.cumsum(x) / 7,), ((100,),)),
    "spread": (lambda x: (x + x[0] - x[-1],), ((40000,),)),
    "diagonal": (lambda x: (x * jnp.diagonal(x)[:, None],), ((16, 16),)),
    # State that changes places.
    "swap": (lambda a, b: (b, a + 1), ((65,), (65,))),
    "swap reversed": (lambda a, b: (b[::-1], a), ((65,), (65,))),
    "three around": (lambda a, b, c: (b, c, a * 2), ((65,), (65,), (65,))),
    "mixed": (lambda a, b: (a + b.T, b + a.T), ((17, 17), (17, 17))),
    "read after": (lambda a, b: (a + 1, b + (a @ a.T).sum()), ((6, 6), (6, 6))),
    "product": (lambda a, b: (a @ b / 4, b), ((12, 12), (12, 12))),
    "twice": (lambda a, b: (a + 1, a + 1), ((65,), (65,))),
    "given back": (lambda a, b: (a, a + b), ((65,), (65,))),
    # Sums of rows in the kernel that writes them.
    "softmax": (lambda x: (jax.nn.softmax(x, -1),), ((7, 300),)),
    "norm of two dimensions": (
        lambda x, b: (x - x.max((1, 2), keepdims=True) + b[None, :, None], b),
        ((4, 32, 8), (32,)),
    ),
    "norm beside sums": (
        lambda x, w: ((x - x.max(1, keepdims=True)) * w.sum(-1), w),
        ((4, 32), (4, 32, 4)),
    ),
    "norm of a row": (lambda x: (x - x.mean(-1, keepdims=True),), ((1, 40000),)),
    "norm and its sums": (
        lambda x, s: (x - x.mean(1, keepdims=True), x.mean(1) + s),
        ((33, 64), (33,)),
    ),
    "norm of columns": (lambda x: (x - x.max(0),), ((64, 33),)),
    # Loops, which are written out.
    "loop": (
        lambda x: (lax.fori_loop(0, 3, lambda _, c: c.at[1:].set(c[:-1] * 2), x),),
        ((19,),),
    ),
    "loop of two": (
        lambda a, b: lax.fori_loop(0, 3, lambda _, c: (c[1][::-1], c[0]), (a, b)),
        ((19,), (19,)),
    ),
    "stack": (
        lambda x: (lax.fori_loop(1, 4, lambda i, c: c.at[i].add(c[i - 1]), x),),
        ((4, 16),),
    ),
    "stack of neighbours": (lambda x: (x.at[1].set(x[0]).at[0].set(x[1] * 3),), ((2, 16),)),
    "scan": (
        lambda x: (lax.scan(lambda c, r: (c + r, c * 2), x[0], x)[1],),
        ((4, 16),),
    ),
}


def state_of(name: str, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Returns the state that a program starts from."""
    rng = np.random.default_rng(seed)
    state = []
    for shape in PROGRAMS[name][1]:
        if shape[0] == "i":
            state.append(rng.integers(0, 8, shape[1:]).astype(np.int32))
        else:
            state.append(rng.normal(size=shape).astype(np.float32))
    return tuple(state)
