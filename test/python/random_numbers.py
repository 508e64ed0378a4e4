"""Products, orders, bits, complex numbers and matrices in random programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from random_programs import LARGEST, Value, Writer, eps_of
from random_table import APPLY, fit, grown, op, partner

# Integers and bits --------------------------------------------------------------------------------

_INTEGER_UNARY: dict[str, Callable[[Any], Any]] = {
    "popcount": lax.population_count,
    "clz": lax.clz,
    "sign_of": jnp.sign,
    "abs_of": jnp.abs,
    "negated": jnp.negative,
    "cubed": lambda x: x**3,
    "bytes": lambda x: (
        jnp.ravel(lax.bitcast_convert_type(x, jnp.uint8))[: x.size].reshape(x.shape).astype(x.dtype)
    ),
}
APPLY |= _INTEGER_UNARY


@op("narrow")
def _narrow(x: Any, y: Any, dtype: str, how: str) -> Any:
    """Integers of four bits, whose sums XLA:CPU does not wrap where it fuses them."""
    a, b = x.astype(dtype), y.astype(dtype)
    return getattr(lax, how)(a, b).astype(x.dtype)


@op("integer_dot")
def _integer_dot(x: Any, y: Any) -> Any:
    dims = (((x.ndim - 1,), (0,)), ((), ()))
    return lax.dot_general(x, y, dims, preferred_element_type=jnp.int32)


@op("clamp")
def _clamp(x: Any, low: Any, high: Any) -> Any:
    return lax.clamp(jnp.minimum(low, high), x, jnp.maximum(low, high))


@grown(2)
def _integers(writer: Writer) -> None:
    place = writer.pick(lambda value: value.is_integer and value.elements > 0)
    if place is None:
        return
    value = writer.values[place]
    kind = writer.choice(["unary", "narrow", "dot", "clamp"])
    if kind == "unary":
        writer.add(writer.choice(list(_INTEGER_UNARY)), [place], writer.joined(place))
        return
    other = partner(writer, place)
    if kind == "narrow":
        how = writer.choice(["max", "min", "bitwise_xor", "bitwise_and"])
        dtype = writer.choice(["int4", "uint4"])
        writer.add(kind, [place, other], writer.joined(place, other), dtype=dtype, how=how)
    elif kind == "clamp":
        third = partner(writer, place)
        writer.add(kind, [place, other, third], writer.joined(place))
    elif value.shape != () and value.dtype in ("int8", "uint8", "int16", "uint16", "int32"):
        wide = writer.choice([1, 3, 16])
        right = fit(writer, other, (value.shape[-1], wide))
        joined = writer.joined(place, shape=(*value.shape[:-1], wide), dtype="int32")
        writer.add("integer_dot", [place, right], joined)


@op("bits_of")
def _bits_of(x: Any) -> Any:
    """The bits of floats, of any NaN and any zero the same."""
    kind = {2: jnp.uint16, 4: jnp.uint32, 8: jnp.uint64}[x.dtype.itemsize]
    plain = jnp.where(jnp.isnan(x) | (x == 0), jnp.zeros((), x.dtype), x)
    return lax.bitcast_convert_type(plain, kind)


@op("rounded_to")
def _rounded_to(x: Any, to: Any) -> Any:
    """Numbers of fewer digits; what overflows is not looked at."""
    if isinstance(to, str):
        top = jnp.asarray(jnp.finfo(to).max, x.dtype)
        return jnp.clip(x, -top, top).astype(to).astype(x.dtype)
    return lax.reduce_precision(x, *to)


@op("fmod")
def _fmod(x: Any, y: Any) -> Any:
    return lax.rem(x, y)


@op("random")
def _random(key: Any, shape: tuple[int, ...]) -> Any:
    word = jnp.ravel(key)[0].astype(jnp.uint32)
    return jax.random.uniform(jax.random.wrap_key_data(jnp.stack([word, word + 1])), shape)


FORMATS = ("float8_e4m3fn", "float8_e5m2", (5, 10), (8, 7), (4, 3), (5, 2))


@grown(2)
def _formats(writer: Writer) -> None:
    kind = writer.choice(["bits_of", "rounded_to", "fmod", "random"])
    if kind == "random":
        key = writer.pick(lambda value: value.is_integer and value.elements > 0)
        if key is not None:
            shape = (writer.choice([1, 3, 8]), writer.choice([2, 5, 16]))
            value = Value(shape, "float32", eps=eps_of("float32"))
            writer.add(kind, [key], value, shape=shape)
        return
    place = writer.pick(lambda value: value.is_float and value.is_exact)
    if place is None:
        return
    value = writer.values[place]
    if kind == "bits_of":
        bits = {"float32": "uint32", "float64": "uint64"}.get(value.dtype, "uint16")
        changed = writer.joined(place, dtype=bits, eps=0.0, size=12.0, is_product=False)
        writer.add(kind, [place], changed)
    elif kind == "rounded_to":
        to = writer.choice(FORMATS)
        eps = eps_of(to) if isinstance(to, str) else 2.0 ** -to[1]
        changed = writer.joined(place, eps=max(value.eps, eps), is_product=False)
        writer.add(kind, [place], changed, to=to)
    else:
        other = partner(writer, place)
        if writer.values[other].is_exact:
            writer.add(kind, [place, other], writer.joined(place, other, is_product=False))


# Orders -------------------------------------------------------------------------------------------


def _by_dtype(name: str) -> Callable[..., Any]:
    return lambda x, axis: getattr(jnp, name)(x, axis=axis).astype(x.dtype)


APPLY |= {f"{name}_over": _by_dtype(name) for name in ("prod", "any", "all")}


@op("cumulative")
def _cumulative(x: Any, axis: int, how: str, reverse: bool) -> Any:
    return getattr(lax, how)(x, axis=axis, reverse=reverse)


@op("argmin")
def _argmin(x: Any, axis: int) -> Any:
    return lax.argmin(x, axis, jnp.int32)


@op("top_k")
def _top_k(x: Any, k: int, which: int) -> Any:
    if jnp.issubdtype(x.dtype, jnp.floating):
        x = jnp.where(jnp.isnan(x), jnp.asarray(jnp.nan, x.dtype), x)  # The order is by its sign.
    return lax.top_k(x, k)[which]


@op("sort_pairs")
def _sort_pairs(x: Any, y: Any, axis: int, keys: int, which: int) -> Any:
    return lax.sort((x, y), dimension=axis, num_keys=keys, is_stable=True)[which]


@op("descending")
def _descending(x: Any, axis: int) -> Any:
    return jnp.sort(x, axis=axis, descending=True)


@op("largest_with_place")
def _largest_with_place(x: Any, axis: int) -> Any:
    """The place of the first largest element, by a reduction of two operands."""

    def larger(a: Any, b: Any) -> Any:
        keep = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return jnp.where(keep, a[0], b[0]), jnp.where(keep, a[1], b[1])

    x = jnp.where(jnp.isnan(x), jnp.zeros((), x.dtype), x)
    is_integer = jnp.issubdtype(x.dtype, jnp.integer)
    first = jnp.iinfo(x.dtype).min if is_integer else -jnp.inf
    places = lax.broadcasted_iota(jnp.int32, x.shape, axis)
    starts = (np.asarray(first, x.dtype), np.int32(np.iinfo(np.int32).max))
    return lax.reduce((x, places), starts, larger, (axis,))[1]


@grown(3)
def _orders(writer: Writer) -> None:
    place = writer.pick(lambda value: value.is_exact and value.shape != () and value.elements > 0)
    if place is None:
        return
    value = writer.values[place]
    axis = writer.integer(0, len(value.shape) - 1)
    rest = (*value.shape[:axis], *value.shape[axis + 1 :])
    if value.dtype == "bool":
        name = writer.choice(["any_over", "all_over"])
        writer.add(name, [place], writer.joined(place, shape=rest), axis=axis)
        return
    integers = ["prod_over"] if value.is_integer else []
    kinds = ["cumulative", "argmin", "top_k", "sort_pairs", "descending", "largest_with_place"]
    kind = writer.choice(kinds + integers)
    if kind == "cumulative":
        how = writer.choice(["cummax", "cummin"] + (["cumsum", "cumprod"] if integers else []))
        reverse = writer.flag()
        writer.add(kind, [place], writer.joined(place), axis=axis, how=how, reverse=reverse)
    elif kind == "prod_over":
        writer.add(kind, [place], writer.joined(place, shape=rest), axis=axis)
    elif kind == "top_k":
        k, which = writer.integer(1, value.shape[-1]), writer.integer(0, 1)
        changes = {"dtype": "int32", "eps": 0.0} if which else {}
        shape = (*value.shape[:-1], k)
        writer.add(kind, [place], writer.joined(place, shape=shape, **changes), k=k, which=which)
    elif kind == "sort_pairs":
        same = writer.pick(lambda one: one.shape == value.shape and one.is_exact)
        if same is None:
            return
        which, keys = writer.integer(0, 1), writer.integer(1, 2)
        if writer.values[same].dtype == "bool":
            keys = 1
        changed = writer.joined(same if which else place, is_product=False)
        writer.add(kind, [place, same], changed, axis=axis, keys=keys, which=which)
    elif kind == "descending":
        writer.add(kind, [place], writer.joined(place), axis=axis)
    else:
        changes = {"shape": rest, "dtype": "int32", "eps": 0.0, "is_product": False}
        writer.add(kind, [place], writer.joined(place, **changes), axis=axis)


# Products -----------------------------------------------------------------------------------------


@op("dot_any")
def _dot_any(x: Any, y: Any, dims: Any, widens: bool) -> Any:
    out = jnp.promote_types(x.dtype, jnp.float32) if widens else x.dtype
    return lax.dot_general(x, y, dims, preferred_element_type=out)


@op("conv")
def _conv(x: Any, kernel: Any, stride: int, pad: Any, holes: Any, groups: int) -> Any:
    wide = jnp.promote_types(x.dtype, jnp.float32)
    # A zero of the padding times an infinity is NaN, which XLA leaves out in some kernels.
    x, kernel = (jnp.where(jnp.isfinite(one), one, jnp.ones_like(one)) for one in (x, kernel))
    return lax.conv_general_dilated(
        *(x, kernel, (stride,), (pad,)),
        *((holes[0],), (holes[1],)),
        feature_group_count=groups,
        preferred_element_type=wide,
    )


def _wide_of(dtype: str) -> str:
    return "float64" if dtype == "float64" else "float32"


@grown(2, smooth=True)
def _contracted(writer: Writer) -> None:
    place = writer.pick(
        lambda value: value.is_float and value.shape != () and value.elements > 0 and value.size < 5
    )
    if place is None:
        return
    value = writer.values[place]
    source = writer.pick(lambda one: one.dtype == value.dtype and one.elements > 0 and one.size < 5)
    assert source is not None
    rank = len(value.shape)
    if writer.integer(0, 2) == 2:
        groups, filters = writer.choice([1, 1, 2]), writer.choice([2, 4])
        width = writer.choice([6, 9])
        x = fit(writer, place, (2, 2 * groups, width))
        kernel = fit(writer, source, (filters, 2, 3))
        pad = (writer.integer(0, 2), writer.integer(0, 2))
        stride, holes = writer.integer(1, 2), (writer.integer(1, 2), writer.integer(1, 2))
        full = (width - 1) * holes[0] + 1 + sum(pad)
        shape = (2, filters, (full - (2 * holes[1] + 1)) // stride + 1)
        params: dict[str, Any] = {"stride": stride, "pad": pad, "holes": holes, "groups": groups}
        changes = {"shape": shape, "dtype": _wide_of(value.dtype), "size": 2 * value.size + 3}
        changes |= {"is_exact": False, "is_product": False}
        writer.add("conv", [x, kernel], writer.joined(x, kernel, **changes), **params)
        return
    axis = writer.integer(0, rank - 1)
    batch = writer.choice([d for d in range(rank) if d != axis] or [None])
    wide = writer.choice([1, 4, 7])
    right_shape = [wide, value.shape[axis]]
    right_axis = 1
    if batch is not None and writer.flag():
        right_shape.insert(1, value.shape[batch])
        right_axis = 2
        dims = (((axis,), (right_axis,)), ((batch,), (1,)))
        shape = [value.shape[batch]]
    else:
        batch, dims, shape = None, (((axis,), (right_axis,)), ((), ())), []
    if writer.flag():
        right_shape, dims = right_shape[::-1], _reversed(dims, len(right_shape))
    shape += [n for d, n in enumerate(value.shape) if d not in (axis, batch)] + [wide]
    if np.prod(shape) > LARGEST:
        return
    right = fit(writer, source, tuple(right_shape))
    widens = writer.flag()
    out = _wide_of(value.dtype) if widens else value.dtype
    size = value.size + writer.values[right].size + float(np.log2(value.shape[axis])) / 2
    changes = {"shape": tuple(shape), "dtype": out, "size": size}
    changes |= {"is_exact": False, "is_product": False}
    writer.add(
        "dot_any", [place, right], writer.joined(place, right, **changes), dims=dims, widens=widens
    )


def _reversed(dims: Any, rank: int) -> Any:
    """Returns dimension numbers for a right operand with its dimensions reversed."""
    (left, right), (left_batch, right_batch) = dims
    return (
        (left, tuple(rank - 1 - d for d in right)),
        (left_batch, tuple(rank - 1 - d for d in right_batch)),
    )


# Complex numbers and matrices ---------------------------------------------------------------------

COMPLEX: dict[str, Callable[[Any], Any]] = {
    "exp": lambda z: jnp.exp(1j * z.real.astype(z.dtype)),
    "square": lambda z: z * z,
    "conj": lambda z: z * jnp.conj(z[..., ::-1]),
    "quotient": lambda z: z / (2 + jnp.abs(z)),
    "tanh": lambda z: jnp.tanh(0.3 * z),
    "log": lambda z: jnp.log(z + 4),
    "sqrt": lambda z: jnp.sqrt(z + 4),
    "sum": lambda z: z - z.sum(-1, keepdims=True) / z.shape[-1],
    "dot": lambda z: z @ jnp.swapaxes(z, -1, -2).conj() @ z / z.shape[-1],
    "fft": lambda z: jnp.fft.fft(z) / z.shape[-1],
    "ifft": lambda z: jnp.fft.ifft(z, axis=-2),
    "rfft": lambda z: z + jnp.fft.irfft(jnp.fft.rfft(z.real), z.shape[-1]),
    "shift": lambda z: z.at[..., 1:].add(z[..., :-1]),
    "roll": lambda z: jnp.roll(z, 1, -1),
    "cumsum": lambda z: jnp.cumsum(z, -1) / z.shape[-1],
    "scan": lambda z: lax.scan(lambda c, r: (0.5 * c + r, c * r), z[0] * 1j, z)[1],
    "where": lambda z: jnp.where(jnp.arange(z.shape[-1]) % 2 == 0, z, -z.imag),
}


@op("complex")
def _complex(x: Any, y: Any, names: tuple[str, ...], part: str) -> Any:
    z = lax.complex(jnp.tanh(x), jnp.tanh(y))
    for name in names:
        z = COMPLEX[name](z)
    # What cancels to nothing is rounding alone: beside a larger number it does not count.
    return {"real": jnp.real, "imag": jnp.imag, "abs": jnp.abs}[part](z + (8 + 8j))


#: What a recipe does with the operands of products: nothing, or random errors.
Cast = Callable[[Any], Any]


def _positive(x: Any, cast: Cast) -> Any:
    square = cast(x) @ cast(jnp.swapaxes(x, -1, -2))
    return square / x.shape[-1] + jnp.eye(x.shape[-1], dtype=x.dtype)


def _well(x: Any) -> Any:
    return x / 2 + x.shape[-1] * jnp.eye(x.shape[-1], dtype=x.dtype)


def _qr(x: Any, cast: Cast) -> Any:
    q, r = jnp.linalg.qr(_well(x))
    return cast(q) @ cast(jnp.triu(r))


def _root(x: Any, cast: Cast) -> Any:
    w, v = jnp.linalg.eigh(_positive(x, cast))
    return cast(v * jnp.sqrt(w)[..., None, :]) @ cast(jnp.swapaxes(v, -1, -2))


MATRICES: dict[str, Callable[[Any, Cast], Any]] = {
    "cholesky": lambda x, cast: jnp.linalg.cholesky(_positive(x, cast)),
    "solve": lambda x, cast: jnp.linalg.solve(_well(x), x),
    "inverse": lambda x, cast: jnp.linalg.inv(_well(x)),
    "det": lambda x, cast: x / (1 + jnp.linalg.det(_positive(x, cast))[..., None, None]),
    "triangular": lambda x, cast: jax.scipy.linalg.solve_triangular(_well(x), x, lower=True),
    "transposed": lambda x, cast: jax.scipy.linalg.solve_triangular(_well(x), x, trans="T"),
    "qr": _qr,
    "eigenvalues": lambda x, cast: x + jnp.linalg.eigvalsh(_positive(x, cast))[..., None],
    "eigen": _root,
    "singular": lambda x, cast: x + jnp.linalg.svd(_well(x), compute_uv=False)[..., None],
}
# Their derivatives divide by differences of eigenvalues.
_UNSTABLE = ("eigenvalues", "eigen", "singular")


@op("matrix")
def _matrix(x: Any, name: str, cast: Cast = lambda x: x) -> Any:
    return MATRICES[name](jnp.tanh(x), cast)


@grown(2, smooth=True)
def _algebra(writer: Writer) -> None:
    place = writer.pick(
        lambda value: value.dtype in ("float32", "float64") and 0 < value.elements < LARGEST // 8
    )
    if place is None:
        return
    changes: dict[str, Any] = {"is_exact": False, "is_product": False, "size": 4.0}
    if writer.flag():
        other = partner(writer, place)
        shape = writer.choice([(3, 4), (2, 3, 8), (5, 6)])
        x, y = fit(writer, place, shape), fit(writer, other, shape)
        names = tuple(writer.choice(list(COMPLEX)) for _ in range(writer.integer(1, 3)))
        if len(shape) > 2:
            # The stacks of a scan are of rows.
            names = tuple(name for name in names if name != "scan")
        part = writer.choice(["real", "imag", "abs"])
        writer.add("complex", [x, y], writer.joined(x, y, **changes), names=names, part=part)
        return
    shape = writer.choice([(3, 3), (2, 4, 4), (7, 7), (1, 1)])
    names_ = [name for name in MATRICES if not (writer.smooth and name in _UNSTABLE)]
    name = writer.choice(names_)
    x = fit(writer, place, shape)
    writer.add("matrix", [x], writer.joined(x, **changes), name=name)
