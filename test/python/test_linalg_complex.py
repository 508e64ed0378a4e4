"""Linear algebra of complex matrices, and eigenvalues of any square one, on the CPU target."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
from cpu_run import compile_text
from test_linalg import Case, check, general, well

RNG = np.random.default_rng(1)


def number(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


def regular(*shape: int) -> np.ndarray:
    """Matrices with a condition of some tens, without symmetry."""
    return number(*shape) / np.sqrt(2 * shape[-1]) + 2 * np.eye(*shape[-2:])


def adjoint(x: Any) -> Any:
    return np.swapaxes(x, -1, -2).conj()


def hermitian(*shape: int) -> np.ndarray:
    """Positive definite matrices whose eigenvalues lie apart by 1 or more."""
    q, _ = np.linalg.qr(number(*shape))
    return q * (np.arange(1, shape[-1] + 1) * 1.5) @ adjoint(q)


def apart(*shape: int) -> np.ndarray:
    """Real matrices with real and with conjugate pairs of eigenvalues, all apart."""
    n = shape[-1]
    blocks = np.diag(np.arange(1.0, n + 1) * 2)
    blocks[1, 2], blocks[2, 1] = 3, -3
    v = np.eye(n) + general(*shape) / (3 * np.sqrt(n))
    return v @ blocks @ np.linalg.inv(v)


def joined(w: Any, v: Any) -> Any:
    """A V - V w is zero of the right pairs: V w V^-1, which has no phase."""
    return (v * w[..., None, :]) @ jnp.linalg.inv(v)


def joined_left(w: Any, v: Any) -> Any:
    """Also A, from the rows adjoint(v)."""
    rows = jnp.swapaxes(v, -1, -2).conj()
    return jnp.linalg.inv(rows) @ (w[..., :, None] * rows)


def squared(a: Any) -> Any:
    w, v = jax.lax.linalg.eig(a, compute_left_eigenvectors=False, enable_eigvec_derivs=True)
    return joined(w**2, v)


def ordered(w: Any) -> Any:
    return w[jnp.argsort(w.real + 0.001 * w.imag)]


def real(x: Any) -> Any:
    """A real number of all elements, with a gradient that depends on phases."""
    return jnp.sum(jnp.sin(x.real) + jnp.cos(2 * x.imag))


SOLVERS: dict[str, Case] = {
    "cholesky": (jnp.linalg.cholesky, (hermitian(2, 6, 6),)),
    "upper cholesky": (lambda a: jnp.linalg.cholesky(a, upper=True), (hermitian(6, 6),)),
    "cholesky, large": (jnp.linalg.cholesky, (hermitian(90, 90),)),
    "cholesky, empty": (jnp.linalg.cholesky, (np.zeros((2, 0, 0), complex),)),
    "cholesky gradient": (jax.grad(lambda a: real(jnp.linalg.cholesky(a))), (hermitian(5, 5),)),
    "cholesky solve": (
        lambda a, b: jsl.cho_solve(jsl.cho_factor(a), b),
        (hermitian(6, 6), number(6, 2)),
    ),
    "right": (
        lambda a, b: jax.lax.linalg.triangular_solve(
            a, b, left_side=False, lower=True, transpose_a=True, conjugate_a=True
        ),
        (regular(5, 5), number(3, 5)),
    ),
    "triangular gradient": (
        jax.grad(lambda a, b: real(jsl.solve_triangular(a, b, trans="C")), argnums=(0, 1)),
        (regular(6, 6), number(6, 2)),
    ),
    "solve": (jnp.linalg.solve, (regular(2, 8, 8), number(2, 8, 3))),
    "solve gradient": (
        jax.grad(lambda a, b: real(jnp.linalg.solve(a, b)), argnums=(0, 1)),
        (regular(6, 6), number(6, 2)),
    ),
    "inverse": (jnp.linalg.inv, (regular(6, 6),)),
    "determinant": (jnp.linalg.det, (regular(3, 5, 5),)),
    "determinant gradient": (jax.grad(lambda a: jnp.abs(jnp.linalg.det(a))), (regular(4, 4),)),
    "log determinant": (jnp.linalg.slogdet, (regular(3, 5, 5),)),
    "tridiagonal solve": (
        lambda d, b: jax.lax.linalg.tridiagonal_solve(
            jnp.concatenate([d[:1] * 0, d[1:] / 9]), d, jnp.concatenate([d[1:] / 7, d[:1] * 0]), b
        ),
        (3 + number(6), number(6, 2)),
    ),
    "in a loop": (
        lambda a, b: jax.lax.fori_loop(0, 3, lambda i, x: jnp.linalg.solve(a, x + i), b),
        (regular(5, 5), number(5, 2)),
    ),
} | {
    f"triangular {'lower' if lower else 'upper'} {trans}": (
        lambda a, b, lower=lower, trans=trans: jsl.solve_triangular(a, b, lower=lower, trans=trans),
        (regular(2, 6, 6), number(2, 6, 3)),
    )
    for lower in (True, False)
    for trans in ("N", "T", "C")
}


def factors(a: Any) -> Any:
    """Q and R with a positive diagonal of R, which makes them unique."""
    q, r = jnp.linalg.qr(a)
    d = jnp.diagonal(r, axis1=-2, axis2=-1)
    phase = d / jnp.abs(d)
    return q * phase[..., None, :], r * phase.conj()[..., :, None]


def thin(a: Any) -> Any:
    u, s, v = jnp.linalg.svd(a, full_matrices=False)
    return (u * s[..., None, :]) @ v, s


def polar(a: Any) -> Any:
    u, _, v = jnp.linalg.svd(a, full_matrices=False)
    return u @ v


def power(a: Any, exponent: float) -> Any:
    w, v = jnp.linalg.eigh(a)
    return (v * w[..., None, :] ** exponent) @ jnp.swapaxes(v, -1, -2).conj()


FACTORS: dict[str, Case] = {
    "qr": (factors, (number(2, 7, 4),)),
    "qr, large": (factors, (number(90, 60),)),
    "qr, complete": (
        lambda a: jnp.matmul(*jnp.linalg.qr(a, mode="complete")),
        (number(7, 4),),
    ),
    "qr, pivoted": (
        lambda a: (jnp.abs(jsl.qr(a, pivoting=True)[1]), jsl.qr(a, pivoting=True)[2]),
        (number(7, 5),),
    ),
    "qr gradient": (jax.grad(lambda a: real(factors(a)[0])), (number(6, 4),)),
    "eigh": (jnp.linalg.eigvalsh, (hermitian(2, 6, 6),)),
    "eigh, root": (lambda a: power(a, -0.25), (hermitian(3, 7, 7),)),
    "eigh, large": (lambda a: power(a, 0.5), (hermitian(80, 80),)),
    "eigh gradient": (jax.grad(lambda a: real(power(a, 0.5))), (hermitian(5, 5),)),
    "svd values": (lambda a: jnp.linalg.svd(a, compute_uv=False), (number(2, 7, 4),)),
    "svd": (thin, (number(2, 4, 7),)),
    "svd, full": (
        lambda a: (lambda u, s, v: (u.T.conj() @ u, s, v @ v.T.conj()))(*jnp.linalg.svd(a)),
        (number(7, 4),),
    ),
    "svd by QR iterations": (
        lambda a: (lambda u, s, v: ((u * s) @ v, s))(
            *jax.lax.linalg.svd(a, full_matrices=False, algorithm=jax.lax.linalg.SvdAlgorithm.QR)
        ),
        (number(7, 4),),
    ),
    "svd gradient": (jax.grad(lambda a: real(polar(a))), (number(6, 4),)),
    "pseudo-inverse": (jnp.linalg.pinv, (number(6, 4),)),
    "hessenberg": (lambda a: jnp.abs(jsl.hessenberg(a)), (regular(5, 5),)),
    "schur": (
        lambda a: (lambda t, z: z @ t @ z.T.conj())(*jsl.schur(a, output="complex")),
        (regular(5, 5),),
    ),
    "tridiagonal": (lambda a: jax.lax.linalg.tridiagonal(a)[1:3], (hermitian(6, 6),)),
}

EIGEN: dict[str, Case] = {
    "values": (lambda a: ordered(jnp.linalg.eigvals(a)), (apart(6, 6),)),
    "vectors": (lambda a: joined(*jnp.linalg.eig(a)), (apart(2, 6, 6),)),
    "one": (jnp.linalg.eigvals, (well(3, 1, 1),)),
    "empty": (jnp.linalg.eigvals, (np.zeros((2, 0, 0)),)),
    "large": (lambda a: joined(*jnp.linalg.eig(a)), (apart(40, 40),)),
    "left vectors": (lambda a: joined_left(*jax.lax.linalg.eig(a)[:2]), (apart(5, 5),)),
    "gradient of values": (
        jax.grad(lambda a: jnp.sum(jnp.abs(jnp.linalg.eigvals(a)) ** 3)),
        (apart(5, 5),),
    ),
    "complex values": (lambda a: ordered(jnp.linalg.eigvals(a)), (regular(6, 6),)),
    "complex vectors": (lambda a: joined(*jnp.linalg.eig(a)), (regular(2, 5, 5),)),
    "complex gradient": (
        jax.grad(lambda a: real(squared(a))),
        (regular(4, 4),),
    ),
}


CASES = SOLVERS | FACTORS | {f"eig, {name}": case for name, case in EIGEN.items()}
# Each routine once in double precision, which only its name tells from single precision.
DOUBLE = [
    *("cholesky", "triangular lower C", "solve", "tridiagonal solve", "qr", "qr, pivoted"),
    *("eigh, root", "svd values", "svd", "svd by QR iterations", "hessenberg", "schur"),
    *("tridiagonal", "eig, vectors", "eig, complex vectors"),
]


@pytest.mark.parametrize("case", CASES)
def test_single_precision(case: str) -> None:
    fn, args = CASES[case]
    check(fn, *args)


@pytest.mark.parametrize("case", DOUBLE)
def test_double_precision(case: str) -> None:
    fn, args = CASES[case]
    check(fn, *args, dtype=np.float64)


@pytest.mark.parametrize("lower", [True, False])
def test_solvers_of_stablehlo(lower: bool) -> None:
    """Of text that JAX does not emit for a CPU: the factor, and x with x adjoint(l) = b."""
    word = str(lower).lower()
    matrix, sides = "tensor<2x4x4xcomplex<f32>>", "tensor<2x3x4xcomplex<f32>>"
    text = f"""
func.func @main(%a: {matrix}, %b: {sides}) -> ({matrix}, {sides}) {{
  %l = stablehlo.cholesky %a, lower = {word} : {matrix}
  %x = "stablehlo.triangular_solve"(%l, %b) <{{left_side = false, lower = {word},
      transpose_a = #stablehlo<transpose ADJOINT>, unit_diagonal = false}}>
      : ({matrix}, {sides}) -> {sides}
  return %l, %x : {matrix}, {sides}
}}
"""
    a, b = hermitian(2, 4, 4).astype(np.complex64), number(2, 3, 4).astype(np.complex64)
    a[1] -= 10 * np.eye(4)  # not positive definite
    factor, solution = (np.asarray(x) for x in compile_text(text).run([a, b]))
    assert np.isnan(factor[1]).all()
    expected = np.linalg.cholesky(a[0].astype(np.complex128))
    bound = 64 * np.finfo(np.float32).eps * np.abs(a).max()
    np.testing.assert_allclose(
        factor[0], expected if lower else adjoint(expected), rtol=0, atol=bound
    )
    solved = solution[0] @ adjoint(factor[0])
    np.testing.assert_allclose(solved, b[0], rtol=0, atol=bound * np.abs(solution[0]).max())


def test_a_nan_makes_results_nan() -> None:
    a = regular(3, 4, 4)
    a[1, 2, 1] = complex(0, np.nan)  # the imaginary part alone
    check(jnp.linalg.eigvals, a, nans=True)
    check(lambda a: jnp.linalg.svd(a, compute_uv=False), a, nans=True)
