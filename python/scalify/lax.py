"""Marks on values of a JAX function: set, measure or read their scales, cut pipelines.

All of these are the identity on true values, in plain JAX as under `scalify.jit` and
`scalify.transform`; only the latter two act on them. They are JAX primitives, so they survive
`jit`, `grad`, `vmap`, `scan` and `checkpoint`. They take pytrees; leaves that are not F32, F16 or
BF16 arrays pass through.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jax_core
from jax.interpreters import ad, batching
from jax.interpreters import mlir as jax_mlir

__all__ = ["get_data_scale", "rescale", "rescale_grad", "set_scaling", "stage_border"]

Statistic: TypeAlias = Literal["l1", "l2", "max"]

_STATISTICS = ("max", "l1", "l2")
_WIDE = (jnp.float32, jnp.float16, jnp.bfloat16)


def set_scaling(x: Any, scale: Any) -> Any:
    """Returns `x`; from here on it has the scale `scale`.

    Use it where you know the magnitude and the rules cannot. A number known at trace time gives a
    static scale. An array gives a run-time scale, which propagates to the casts downstream.

    Args:
        x: a pytree of arrays.
        scale: the magnitude of a typical element (its root mean square), rounded down to a power
            of two; a positive number or a rank-0 array. Under `vmap` the largest of the batch is
            used, since a tensor has one scale.

    Raises:
        ValueError: the scale is not a positive finite number, or its rank is above 0.
    """
    if isinstance(scale, (int, float, np.number)) and not (0 < float(scale) < float("inf")):
        raise ValueError(f"a scale of {scale} is not positive and finite")
    if np.ndim(scale) != 0:
        raise ValueError(f"a scale of shape {np.shape(scale)}: a tensor has one scale, of rank 0")
    wide = jnp.asarray(scale, jnp.float32)
    return _map(lambda leaf: _set_scaling_p.bind(leaf, wide), x)


def rescale(x: Any, statistic: Statistic = "l2", *, axis: int | Sequence[int] | None = None) -> Any:
    """Returns `x`; from here on its scale is measured in the step.

    The scale is a statistic of the values, rounded down to a power of two, at the cost of one read
    of the tensor per step. It is at least 2^-14 of the predicted scale, and is the predicted scale
    if the values are all zero or not finite. The cotangent is not marked.

    With `axis` each row has its own scale, as gradients of an embedding or of a head need. Row
    scales reach a dot that does not contract along the rows. A dot that does uses the largest of
    them, with a remark (an error under `strict`).

    Args:
        x: a pytree of arrays.
        statistic: "l2" (root mean square), "l1" (mean magnitude) or "max".
        axis: the axes that the statistic reduces, as in `jax.numpy.max`: -1 gives each row a
            scale. None reduces all axes: one scale for the tensor.

    Raises:
        ValueError: the statistic is unknown, or an array does not have the axis.
    """
    _check(statistic)
    return _map(lambda leaf: _rescale_p.bind(leaf, statistic=statistic, axes=_axes(leaf, axis)), x)


def rescale_grad(
    x: Any, statistic: Statistic = "l2", *, axis: int | Sequence[int] | None = None
) -> Any:
    """Returns `x`; its cotangent is rescaled as by `rescale`.

    Apply it to the input of a norm: the gradients that are summed there drift with depth.

    Args:
        x: a pytree of arrays.
        statistic: as for `rescale`.
        axis: as for `rescale`.

    Raises:
        ValueError: the statistic is unknown, or an array does not have the axis.
    """
    _check(statistic)
    return _map(
        lambda leaf: _rescale_grad_p.bind(leaf, statistic=statistic, axes=_axes(leaf, axis)), x
    )


def get_data_scale(x: Any) -> tuple[Any, Any]:
    """Returns (data, scale) with `data * scale == x`, as two pytrees.

    In plain JAX, and under a recipe that casts nothing, this is (x, 1). `jax.grad` treats the scale
    as a constant.

    Args:
        x: a pytree of arrays.
    """
    leaves, tree = jax.tree.flatten(x)
    one = jnp.float32(1)
    pairs = [_data_scale_p.bind(leaf) if _is_wide(leaf) else (leaf, one) for leaf in leaves]
    return tuple(jax.tree.unflatten(tree, part) for part in zip(*pairs, strict=True)) or (x, x)


def stage_border(x: Any, wire: Literal["given", "fp8"] = "given") -> Any:
    """Returns `x`; a pipeline may be cut here (`scalify.Distribution(pipeline=)`).

    Ops that use `x` belong to the next chunk of the model; its cotangent crosses the border in
    reverse. One process computes the same results as ranks that run the stages.

    Args:
        x: a pytree of arrays: all values of earlier chunks that later chunks use, except for
            parameters and values computed from the batch alone.
        wire: "given" leaves values unchanged. With "fp8", leaves in F32, F16 and BF16 are rounded
            to E4M3 by their propagated scale, and their cotangents to E5M2 by theirs, with
            saturation. One process rounds too. Under a recipe that casts nothing every scale is 1.
            Only reverse-mode differentiation is supported.

    Raises:
        ValueError: the wire is unknown.
    """
    if wire not in ("given", "fp8"):
        raise ValueError(f"unknown wire '{wire}': expected given or fp8")
    leaves, tree = jax.tree.flatten(x)
    if not leaves:
        return x
    arrays = [jnp.asarray(leaf) for leaf in leaves]
    cross = _stage_border_p.bind if wire == "given" else _narrow_border
    return jax.tree.unflatten(tree, cross(*arrays))


def _check(statistic: str) -> None:
    if statistic not in _STATISTICS:
        raise ValueError(f"unknown statistic '{statistic}': expected one of max, l1, l2")


def _axes(leaf: jax.Array, axis: int | Sequence[int] | None) -> str:
    """Returns the axes in order as "0,2", for a string attribute; "" for all."""
    if axis is None:
        return ""
    axes = (axis,) if isinstance(axis, (int, np.integer)) else tuple(axis)
    if any(not -leaf.ndim <= number < leaf.ndim for number in axes):
        raise ValueError(f"axis {axis} is out of range for an array of rank {leaf.ndim}")
    return ",".join(map(str, sorted({number % leaf.ndim for number in axes})))


def _batched_axes(axes: str, dim: int) -> str:
    """Returns the axes after a batch dimension is inserted at `dim`, which is not reduced."""
    if not axes:
        return axes
    return ",".join(str(number + (number >= dim)) for number in map(int, axes.split(",")))


def _is_wide(leaf: Any) -> bool:
    return isinstance(leaf, (float, jax.Array, np.ndarray, np.generic)) and (
        jnp.result_type(leaf) in _WIDE
    )


def _map(bind: Any, tree: Any) -> Any:
    return jax.tree.map(
        lambda leaf: bind(jnp.asarray(leaf)) if _is_wide(leaf) else leaf,
        tree,
    )


def _primitive(name: str) -> Any:
    primitive = jax_core.Primitive(name)
    primitive.def_impl(lambda x, *_, **__: x)
    primitive.def_abstract_eval(lambda x, *_, **__: x)
    return primitive


def _composite(name: str, count: int = 1) -> Any:
    """Returns the lowering to a composite, whose decomposition is the identity on true values."""

    def decomposition(x: Any, *_: Any, **__: Any) -> Any:
        return x if count == 1 else (x, jnp.float32(1))

    call = jax.lax.composite(decomposition, name=name)
    return jax_mlir.lower_fun(call, multiple_results=count > 1)


def _identity(x: Any, *_: Any, **__: Any) -> Any:
    return x


# The scale of a value. Its tangent is another value with its own scale, and is not marked.
_set_scaling_p = _primitive("scalify_set_scaling")
jax_mlir.register_lowering(_set_scaling_p, _composite("scalify.set_scaling"))


def _set_scaling_jvp(primals: Any, tangents: Any) -> Any:
    return _set_scaling_p.bind(*primals), tangents[0]


def _set_scaling_transpose(cotangent: Any, *_: Any) -> Any:
    return cotangent, None


def _set_scaling_batch(args: Any, dims: Any) -> Any:
    x, scale = args
    if dims[1] is not None:
        scale = jnp.max(scale)
    return _set_scaling_p.bind(x, scale), dims[0]


ad.primitive_jvps[_set_scaling_p] = _set_scaling_jvp
ad.primitive_transposes[_set_scaling_p] = _set_scaling_transpose
batching.primitive_batchers[_set_scaling_p] = _set_scaling_batch


# The forward rescale, which sets the scale by a statistic.
_rescale_p = _primitive("scalify_rescale")
jax_mlir.register_lowering(_rescale_p, _composite("scalify.rescale"))


def _rescale_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    return _rescale_p.bind(*primals, **params), tangents[0]


def _rescale_transpose(cotangent: Any, _: Any, **__: Any) -> Any:
    return (cotangent,)


def _batch_by_axes(args: Any, dims: Any, *, primitive: Any, statistic: str, axes: str) -> Any:
    axes = _batched_axes(axes, dims[0])
    return primitive.bind(*args, statistic=statistic, axes=axes), dims[0]


ad.primitive_jvps[_rescale_p] = _rescale_jvp
ad.primitive_transposes[_rescale_p] = _rescale_transpose
batching.primitive_batchers[_rescale_p] = functools.partial(_batch_by_axes, primitive=_rescale_p)


# The rescale of the cotangent: linear, with the forward rescale as its transpose.
_rescale_grad_p = _primitive("scalify_rescale_grad")
jax_mlir.register_lowering(_rescale_grad_p, jax_mlir.lower_fun(_identity, multiple_results=False))


def _rescale_grad_jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    (x,), (tangent,) = primals, tangents
    if isinstance(tangent, ad.Zero):
        return x, tangent
    return x, _rescale_grad_p.bind(tangent, **params)


def _rescale_grad_transpose(cotangent: Any, _: Any, **params: Any) -> Any:
    if isinstance(cotangent, ad.Zero):
        return (cotangent,)
    return (_rescale_p.bind(cotangent, **params),)


ad.primitive_jvps[_rescale_grad_p] = _rescale_grad_jvp
ad.primitive_transposes[_rescale_grad_p] = _rescale_grad_transpose
batching.primitive_batchers[_rescale_grad_p] = functools.partial(
    _batch_by_axes, primitive=_rescale_grad_p
)


# The data and the scale of a value.
_data_scale_p = jax_core.Primitive("scalify_get_data_scale")
_data_scale_p.multiple_results = True
_data_scale_p.def_impl(lambda x: [x, jnp.float32(1)])
_data_scale_p.def_abstract_eval(lambda x: [x, jax.core.ShapedArray((), jnp.float32)])
jax_mlir.register_lowering(_data_scale_p, _composite("scalify.get_data_scale", 2))


def _data_scale_jvp(primals: Any, tangents: Any) -> Any:
    data, scale = _data_scale_p.bind(*primals)
    zero = ad.Zero(jax.core.ShapedArray((), jnp.float32))
    (tangent,) = tangents
    if not isinstance(tangent, ad.Zero):
        tangent = tangent / scale.astype(tangent.dtype)
    return [data, scale], [tangent, zero]


def _data_scale_batch(args: Any, dims: Any) -> Any:
    return _data_scale_p.bind(*args), [dims[0], None]


ad.primitive_jvps[_data_scale_p] = _data_scale_jvp
batching.primitive_batchers[_data_scale_p] = _data_scale_batch


# A border where a pipeline may be cut. One primitive takes all values that cross it.
def _border(name: str) -> Any:
    primitive = jax_core.Primitive(name)
    primitive.multiple_results = True
    primitive.def_impl(lambda *xs: list(xs))
    primitive.def_abstract_eval(lambda *xs: list(xs))
    call = jax.lax.composite(lambda *xs: xs, name=name.replace("_", ".", 1))
    jax_mlir.register_lowering(primitive, jax_mlir.lower_fun(call, multiple_results=True))
    batching.primitive_batchers[primitive] = lambda args, dims: (primitive.bind(*args), dims)
    return primitive


_stage_border_p = _border("scalify_stage_border")
_stage_border_grad_p = _border("scalify_stage_border_grad")
# The border of tangents lowers to nothing; only its transpose is marked.
_stage_tangent_p = _border("scalify_stage_tangent")
jax_mlir.register_lowering(
    _stage_tangent_p, jax_mlir.lower_fun(lambda *xs: list(xs), multiple_results=True)
)


def _border_jvp(primals: Any, tangents: Any, *, primitive: Any) -> Any:
    known = [tangent for tangent in tangents if not isinstance(tangent, ad.Zero)]
    crossed = iter(_stage_tangent_p.bind(*known) if known else ())
    return primitive.bind(*primals), [
        tangent if isinstance(tangent, ad.Zero) else next(crossed) for tangent in tangents
    ]


def _tangent_transpose(cotangents: Any, *_: Any) -> Any:
    return _stage_border_grad_p.bind(*map(ad.instantiate_zeros, cotangents))


for _primitive_p in (_stage_border_p, _stage_border_grad_p):
    ad.primitive_jvps[_primitive_p] = functools.partial(_border_jvp, primitive=_primitive_p)
ad.primitive_jvps[_stage_tangent_p] = functools.partial(_border_jvp, primitive=_stage_tangent_p)
ad.primitive_transposes[_stage_tangent_p] = _tangent_transpose


def _cross_narrow(primitive: Any, dtype: Any, xs: Sequence[Any]) -> tuple[Any, ...]:
    """Passes wide arrays across a border as narrow data with their scales, others unchanged."""
    pairs = [_data_scale_p.bind(x) if _is_wide(x) else (x, jnp.float32(1)) for x in xs]
    most = float(jnp.finfo(dtype).max)

    def cast(data: Any) -> Any:
        # Checks of finite values see an infinity.
        return jnp.where(jnp.isinf(data), jnp.nan, jnp.clip(data, -most, most)).astype(dtype)

    data = [cast(data) if _is_wide(data) else data for data, _ in pairs]
    crossed = primitive.bind(*data, *(scale for _, scale in pairs))
    return tuple(
        one.astype(x.dtype) * scale.astype(x.dtype) if _is_wide(x) else one
        for x, one, scale in zip(xs, crossed[: len(xs)], crossed[len(xs) :], strict=True)
    )


def _narrow(*xs: Any) -> tuple[Any, ...]:
    return _cross_narrow(_stage_border_p, jnp.float8_e4m3fn, xs)


def _narrow_border_fwd(*xs: Any) -> tuple[tuple[Any, ...], None]:
    return _narrow(*xs), None


def _narrow_border_bwd(_: None, cotangents: tuple[Any, ...]) -> tuple[Any, ...]:
    wide = [one for one in cotangents if _is_wide(one)]
    crossed = iter(_cross_narrow(_stage_border_grad_p, jnp.float8_e5m2, wide))
    return tuple(next(crossed) if _is_wide(one) else one for one in cotangents)


_narrow_border = jax.custom_vjp(_narrow)
_narrow_border.defvjp(_narrow_border_fwd, _narrow_border_bwd)
