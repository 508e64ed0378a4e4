"""Linear algebra on the CPU target: LAPACK's routines as commands of the plan."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
import pytest
from cpu_run import compile_text

import scalify

RNG = np.random.default_rng(0)


def general(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


def positive(*shape: int) -> np.ndarray:
    """Symmetric matrices with eigenvalues of 1 or more."""
    x = general(*shape)
    return x @ np.swapaxes(x, -1, -2) / shape[-1] + np.eye(shape[-1])


def well(*shape: int) -> np.ndarray:
    """Matrices with a condition of some tens, without symmetry."""
    return general(*shape) / np.sqrt(shape[-1]) + 2 * np.eye(*shape[-2:])


def run(fn: Callable[..., Any], *args: np.ndarray, **options: Any) -> list[np.ndarray]:
    """Runs a step without XLA."""
    step = scalify.jit(fn, recipe=options.pop("recipe", "none"), **options)
    found = [np.asarray(leaf) for leaf in jax.tree.leaves(step(*args))]
    assert not step.report().calls()
    return found


def check(
    fn: Callable[..., Any], *args: np.ndarray, dtype: Any = np.float32, nans: bool = False
) -> None:
    """Compares with JAX by the error of both against JAX in F64.

    Two orders of the same sums differ by as much as each differs from the exact values: ours may
    have 8 times JAX's largest error, and 16 roundings of the largest element. With `nans` the
    second matrix of the batch has no result, and may have more NaNs than JAX's.
    """
    with jax.enable_x64(True):
        exact = jax.tree.leaves(jax.jit(fn)(*args))
        exact = [np.asarray(leaf) for leaf in exact]
        kinds = {"f": dtype, "c": np.result_type(dtype, np.complex64)}
        narrow = [x.astype(kinds.get(x.dtype.kind, x.dtype)) for x in args]
        found = run(fn, *narrow)
        theirs = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(fn)(*narrow))]
    assert len(found) == len(theirs)
    for mine, jaxs, true in zip(found, theirs, exact, strict=True):
        assert mine.shape == jaxs.shape and mine.dtype == jaxs.dtype
        if mine.dtype.kind in "biu":
            np.testing.assert_array_equal(mine, jaxs)
            continue
        if not mine.size:
            continue
        if nans:
            assert (np.isnan(mine) >= np.isnan(jaxs)).all() and np.isnan(mine[1]).any()
            mine, jaxs, true = (np.delete(x, 1, axis=0) for x in (mine, jaxs, true))
        finite = np.isfinite(jaxs)
        np.testing.assert_array_equal(mine[~finite], jaxs[~finite])
        mine, jaxs, true = mine[finite], jaxs[finite], true[finite]
        error, largest = (np.nanmax(np.abs(x), initial=0) for x in (jaxs - true, true))
        bound = 8 * error + 16 * np.finfo(dtype).eps * largest
        np.testing.assert_allclose(mine, true, rtol=0, atol=bound)


Case = tuple[Callable[..., Any], tuple[np.ndarray, ...]]

CHOLESKY: dict[str, Case] = {
    "cholesky": (jnp.linalg.cholesky, (positive(6, 6),)),
    "upper": (lambda a: jnp.linalg.cholesky(a, upper=True), (positive(6, 6),)),
    "large": (jnp.linalg.cholesky, (positive(150, 150),)),
    "batched": (jnp.linalg.cholesky, (positive(2, 3, 5, 5),)),
    "one": (jnp.linalg.cholesky, (positive(1, 1),)),
    "empty": (jnp.linalg.cholesky, (np.zeros((3, 0, 0)),)),
    "no batch": (jnp.linalg.cholesky, (np.zeros((0, 4, 4)),)),
    "gradient": (jax.grad(lambda a: jnp.sum(jnp.sin(jnp.linalg.cholesky(a)))), (positive(5, 5),)),
    "log density": (
        jax.value_and_grad(lambda a: jnp.sum(jnp.log(jnp.diag(jnp.linalg.cholesky(a))))),
        (positive(12, 12),),
    ),
    "solved": (
        lambda a, b: jsl.cho_solve((jsl.cholesky(a, lower=True), True), b),
        (positive(8, 8), general(8, 3)),
    ),
    "solved gradient": (
        jax.grad(lambda a, b: jnp.sum(b * jsl.cho_solve(jsl.cho_factor(a), b)), argnums=(0, 1)),
        (positive(8, 8), general(8, 3)),
    ),
}

TRIANGULAR: dict[str, Case] = {
    f"{'lower' if lower else 'upper'} trans {trans}{' unit' * unit}": (
        lambda a, b, lower=lower, trans=trans, unit=unit: jsl.solve_triangular(
            a, b, lower=lower, trans=trans, unit_diagonal=unit
        ),
        (well(7, 7) / (10 if unit else 1), general(7, 4)),
    )
    for lower in (True, False)
    for trans in (0, 1)
    for unit in (True, False)
} | {
    "right": (
        lambda a, b: jax.lax.linalg.triangular_solve(a, b, left_side=False, lower=True),
        (well(5, 5), general(3, 5)),
    ),
    "right transposed": (
        lambda a, b: jax.lax.linalg.triangular_solve(
            a, b, left_side=False, lower=False, transpose_a=True
        ),
        (well(2, 5, 5), general(2, 3, 5)),
    ),
    "vector": (lambda a, b: jsl.solve_triangular(a, b, lower=True), (well(6, 6), general(6))),
    "batched": (
        jax.vmap(lambda a, b: jsl.solve_triangular(a, b, lower=True)),
        (well(40, 6, 6), general(40, 6, 2)),
    ),
    "gradient": (
        jax.grad(lambda a, b: jnp.sum(jnp.cos(jsl.solve_triangular(a, b))), argnums=(0, 1)),
        (well(6, 6), general(6, 2)),
    ),
    "in a loop": (
        lambda a, b: jax.lax.scan(
            lambda c, x: (jsl.solve_triangular(a, c + x, lower=True), jnp.sum(c)), b, b[None] * 3
        ),
        (well(6, 6), general(6, 2)),
    ),
    "in a branch": (
        lambda a, b: jax.lax.cond(
            b[0, 0] > 0, lambda: jsl.solve_triangular(a, b), lambda: jnp.linalg.cholesky(a) @ b
        ),
        (positive(6, 6), general(6, 2)),
    ),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CHOLESKY)
def test_cholesky(case: str, dtype: Any) -> None:
    fn, args = CHOLESKY[case]
    check(fn, *args, dtype=dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", TRIANGULAR)
def test_triangular(case: str, dtype: Any) -> None:
    fn, args = TRIANGULAR[case]
    check(fn, *args, dtype=dtype)


LU: dict[str, Case] = {
    "solve": (jnp.linalg.solve, (well(8, 8), general(8, 3))),
    "solve vector": (jnp.linalg.solve, (well(8, 8), general(8))),
    "batched": (jnp.linalg.solve, (well(20, 5, 5), general(20, 5, 2))),
    "factors": (lambda a: jax.lax.linalg.lu(a), (well(2, 6, 6),)),
    "tall": (lambda a: jax.lax.linalg.lu(a), (well(9, 4),)),
    "wide": (lambda a: jsl.lu(a), (well(3, 7),)),
    "inverse": (jnp.linalg.inv, (well(8, 8),)),
    "determinant": (jnp.linalg.det, (well(3, 6, 6),)),
    "log determinant": (jnp.linalg.slogdet, (well(3, 6, 6),)),
    "one": (jnp.linalg.inv, (well(4, 1, 1),)),
    "gradients": (
        jax.grad(lambda a, b: jnp.sum(jnp.sin(jnp.linalg.solve(a, b))), argnums=(0, 1)),
        (well(6, 6), general(6, 2)),
    ),
    "gradient of the inverse": (
        jax.grad(lambda a: jnp.sum(jnp.cos(jnp.linalg.inv(a)))),
        (well(2, 5, 5),),
    ),
    "gradients of determinants": (
        jax.grad(lambda a: jnp.linalg.det(a) + jnp.linalg.slogdet(a)[1]),
        (well(5, 5),),
    ),
    "factored once": (
        lambda a, b, c: jsl.lu_solve(jsl.lu_factor(a), b) + jsl.lu_solve(jsl.lu_factor(a), c, 1),
        (well(8, 8), general(8, 3), general(8, 3)),
    ),
}


def signed(q: Any, r: Any) -> tuple[Any, Any]:
    """Makes the signs of a factorisation unique."""
    sign = jnp.sign(jnp.diagonal(r, axis1=-2, axis2=-1))
    return q * sign[..., None, :], r * sign[..., :, None]


QR: dict[str, Case] = {
    "square": (lambda a: signed(*jnp.linalg.qr(a)), (well(6, 6),)),
    "tall": (lambda a: signed(*jnp.linalg.qr(a)), (general(2, 9, 4),)),
    "wide": (lambda a: jnp.matmul(*jnp.linalg.qr(a)), (general(2, 4, 9),)),
    "large": (lambda a: signed(*jnp.linalg.qr(a)), (general(150, 90),)),
    "complete": (lambda a: jnp.matmul(*jnp.linalg.qr(a, mode="complete")), (general(7, 4),)),
    "triangle alone": (lambda a: jnp.abs(jnp.linalg.qr(a, mode="r")), (general(9, 4),)),
    "pivoted": (
        lambda a: (jnp.abs(jsl.qr(a, pivoting=True)[1]), jsl.qr(a, pivoting=True)[2]),
        (general(7, 5),),
    ),
    "one": (lambda a: jnp.abs(jnp.linalg.qr(a)[1]), (general(3, 1, 1),)),
    "gradient": (
        jax.grad(lambda a: jnp.sum(jnp.sin(signed(*jnp.linalg.qr(a))[0]))),
        (general(7, 4),),
    ),
    "orthogonal projection": (
        lambda a, b: (lambda q: q @ (q.T @ b))(jnp.linalg.qr(a)[0]),
        (general(9, 4), general(9, 2)),
    ),
    "least squares": (lambda a, b: jnp.linalg.lstsq(a, b)[0], (general(9, 4), general(9, 2))),
}


def spread(*shape: int) -> np.ndarray:
    """Symmetric matrices whose eigenvalues lie apart by 1 or more."""
    q, _ = np.linalg.qr(general(*shape))
    values = np.arange(1, shape[-1] + 1) * 1.5
    return q * values @ np.swapaxes(q, -1, -2)


def power(a: Any, exponent: float) -> Any:
    """A power of a positive definite matrix, as Shampoo takes."""
    w, v = jnp.linalg.eigh(a)
    return (v * w[..., None, :] ** exponent) @ jnp.swapaxes(v, -1, -2)


EIGEN: dict[str, Case] = {
    "values": (jnp.linalg.eigvalsh, (spread(2, 6, 6),)),
    "vectors": (lambda a: jnp.abs(jnp.linalg.eigh(a)[1]), (spread(6, 6),)),
    "root": (lambda a: power(a, -0.25), (positive(3, 12, 12),)),
    "large": (lambda a: power(a, 0.5), (positive(90, 90),)),
    "one": (lambda a: jnp.linalg.eigh(a)[0], (positive(1, 1),)),
    "empty": (lambda a: jnp.linalg.eigh(a)[0], (np.zeros((2, 0, 0)),)),
    "gradient of values": (
        jax.grad(lambda a: jnp.sum(jnp.log(jnp.linalg.eigvalsh(a)))),
        (spread(6, 6),),
    ),
    "gradient of a root": (jax.grad(lambda a: jnp.sum(jnp.sin(power(a, 0.5)))), (spread(5, 5),)),
    "tridiagonal": (lambda a: jax.lax.linalg.tridiagonal(a)[1:3], (positive(6, 6),)),
}

SINGULAR: dict[str, Case] = {
    "values": (lambda a: jnp.linalg.svd(a, compute_uv=False), (general(2, 7, 4),)),
    "thin": (
        lambda a: (lambda u, s, v: ((u * s) @ v, s))(*jnp.linalg.svd(a, full_matrices=False)),
        (general(7, 4),),
    ),
    "wide": (
        lambda a: (lambda u, s, v: ((u * s[..., None, :]) @ v, s))(
            *jnp.linalg.svd(a, full_matrices=False)
        ),
        (general(2, 4, 7),),
    ),
    "full": (
        lambda a: (lambda u, s, v: (u.T @ u, s, v @ v.T))(*jnp.linalg.svd(a)),
        (general(7, 4),),
    ),
    "by QR iterations": (
        lambda a: (lambda u, s, v: ((u * s) @ v, s))(
            *jax.lax.linalg.svd(a, full_matrices=False, algorithm=jax.lax.linalg.SvdAlgorithm.QR)
        ),
        (general(7, 4),),
    ),
    "one": (lambda a: jnp.linalg.svd(a, compute_uv=False), (general(1, 1),)),
    "polar factor": (
        lambda a: (lambda u, _, v: u @ v)(*jnp.linalg.svd(a, full_matrices=False)),
        (general(12, 5),),
    ),
    "pseudo-inverse": (jnp.linalg.pinv, (general(6, 4),)),
    "norm": (lambda a: jnp.linalg.norm(a, "nuc"), (general(6, 4),)),
    "gradient of values": (
        jax.grad(lambda a: jnp.sum(jnp.sqrt(jnp.linalg.svd(a, compute_uv=False)))),
        (general(6, 4),),
    ),
    "gradient of a factor": (
        jax.grad(
            lambda a: jnp.sum(
                jnp.sin((lambda u, _, v: u @ v)(*jnp.linalg.svd(a, full_matrices=False)))
            )
        ),
        (general(6, 4),),
    ),
}

OTHERS: dict[str, Case] = {
    "hessenberg": (lambda a: jnp.abs(jsl.hessenberg(a)), (well(5, 5),)),
    "schur": (lambda a: (lambda t, z: z @ t @ z.T)(*jsl.schur(a)), (well(5, 5),)),
    "triangle of schur": (lambda a: jnp.diag(jsl.schur(a)[0]), (spread(5, 5),)),
    "tridiagonal solve": (
        lambda d, b: jax.lax.linalg.tridiagonal_solve(
            jnp.concatenate([d[:1] * 0, d[1:] / 9]), d, jnp.concatenate([d[1:] / 7, d[:1] * 0]), b
        ),
        (3 + RNG.random(6), general(6, 2)),
    ),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", LU)
def test_lu(case: str, dtype: Any) -> None:
    fn, args = LU[case]
    check(fn, *args, dtype=dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", QR)
def test_qr(case: str, dtype: Any) -> None:
    fn, args = QR[case]
    check(fn, *args, dtype=dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", EIGEN)
def test_eigen(case: str, dtype: Any) -> None:
    fn, args = EIGEN[case]
    check(fn, *args, dtype=dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", SINGULAR)
def test_singular(case: str, dtype: Any) -> None:
    fn, args = SINGULAR[case]
    check(fn, *args, dtype=dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", OTHERS)
def test_others(case: str, dtype: Any) -> None:
    fn, args = OTHERS[case]
    check(fn, *args, dtype=dtype)


def poisoned(*shape: int) -> np.ndarray:
    """Positive definite matrices, of which the second holds a NaN."""
    a = positive(*shape)
    a[1, 2, 3] = np.nan
    return a


def indefinite(*shape: int) -> np.ndarray:
    """Matrices of which the second is not positive definite."""
    a = positive(*shape)
    a[1] -= 10 * np.eye(shape[-1])
    return a


def singular() -> np.ndarray:
    a = well(3, 4, 4)
    a[1, :, 2] = 0
    return a


SPECIAL: dict[str, Case] = {
    "indefinite cholesky": (jnp.linalg.cholesky, (indefinite(3, 5, 5),)),
    "cholesky of NaN": (jnp.linalg.cholesky, (poisoned(3, 5, 5),)),
    "singular lu": (lambda a: jax.lax.linalg.lu(a)[0], (singular(),)),
    "log determinant of a singular matrix": (lambda a: jnp.linalg.slogdet(a)[0], (singular(),)),
    "lu of NaN": (lambda a: jnp.linalg.det(a), (poisoned(3, 5, 5),)),
    # NaN stays with the unknowns that depend on it; the other triangle is not read.
    "triangular": (
        lambda a, b: jsl.solve_triangular(a, b, lower=True),
        (poisoned(3, 5, 5) + np.triu(np.full((5, 5), np.nan), 1), general(3, 5, 2)),
    ),
    "triangular with a diagonal of zero": (
        lambda a, b: jsl.solve_triangular(a, b),
        (singular(), general(3, 4, 2)),
    ),
    "qr of NaN": (lambda a: jnp.abs(jnp.linalg.qr(a)[1]), (poisoned(3, 5, 5),)),
    "eigenvalues of NaN": (jnp.linalg.eigvalsh, (poisoned(3, 5, 5),)),
    "singular values of NaN": (
        lambda a: jnp.linalg.svd(a, compute_uv=False),
        (poisoned(3, 5, 5),),
    ),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", SPECIAL)
def test_what_has_no_result_is_nan_as_in_jax(case: str, dtype: Any) -> None:
    fn, args = SPECIAL[case]
    check(fn, *args, dtype=dtype, nans=case.endswith("NaN"))


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_solvers_of_stablehlo(dtype: str, lower: bool) -> None:
    """Of text that JAX does not emit for a CPU."""
    word = str(lower).lower()
    text = f"""
func.func @main(%a: tensor<2x4x4x{dtype}>, %b: tensor<2x3x4x{dtype}>)
    -> (tensor<2x4x4x{dtype}>, tensor<2x3x4x{dtype}>) {{
  %l = stablehlo.cholesky %a, lower = {word} : tensor<2x4x4x{dtype}>
  %x = "stablehlo.triangular_solve"(%l, %b) <{{left_side = false, lower = {word},
      transpose_a = #stablehlo<transpose ADJOINT>, unit_diagonal = false}}>
      : (tensor<2x4x4x{dtype}>, tensor<2x3x4x{dtype}>) -> tensor<2x3x4x{dtype}>
  return %l, %x : tensor<2x4x4x{dtype}>, tensor<2x3x4x{dtype}>
}}
"""
    kind = {"f32": np.float32, "f64": np.float64}[dtype]
    a, b = indefinite(2, 4, 4).astype(kind), general(2, 3, 4).astype(kind)
    factor, solution = (np.asarray(x) for x in compile_text(text).run([a, b]))
    assert np.isnan(factor[1]).all()
    expected = np.linalg.cholesky(a[0].astype(np.float64))
    bound = 64 * np.finfo(kind).eps * np.abs(a).max()
    np.testing.assert_allclose(factor[0], expected if lower else expected.T, rtol=0, atol=bound)
    solved = solution[0] @ factor[0].T
    np.testing.assert_allclose(solved, b[0], rtol=0, atol=bound * np.abs(solution[0]).max())


def test_donated_arguments_that_are_not_contiguous() -> None:
    """The state is written over arguments that the routines read."""

    def step(a: Any, b: Any) -> tuple[Any, Any]:
        factor = jnp.linalg.cholesky(a)
        return factor @ factor.T + jnp.eye(len(a)), jsl.solve_triangular(factor, b, lower=True)

    a, b = positive(8, 8).astype(np.float32), general(3, 8).astype(np.float32).T
    assert not b.flags.c_contiguous
    ours = theirs = (np.asfortranarray(a), b)
    run, plain = scalify.jit(step, recipe="none", donate_argnums=(0, 1)), jax.jit(step)
    for _ in range(4):
        ours, theirs = run(*ours), plain(*theirs)
    for mine, want in zip(ours, theirs, strict=True):
        # Four times some 8 roundings of elements up to 10.
        np.testing.assert_allclose(np.asarray(mine), np.asarray(want), rtol=1e-5, atol=1e-5)


def test_factors_alone_are_results_in_donated_memory() -> None:
    a = positive(3, 6, 6).astype(np.float32)
    step = scalify.jit(lambda a: jax.lax.linalg.cholesky(a), recipe="none", donate_argnums=0)
    np.testing.assert_allclose(
        np.asarray(step(a.copy())), np.linalg.cholesky(a), rtol=1e-5, atol=1e-5
    )


def test_threads_do_not_disturb_each_other() -> None:
    """Executables of several threads call the one library."""
    a = positive(24, 32, 32).astype(np.float32)
    steps = [
        scalify.jit(lambda a: power(a, -0.25), recipe="none", threads=threads)
        for threads in (1, 2, 3, 1)
    ]
    alone = np.asarray(steps[0](a))
    found: list[list[np.ndarray]] = [[] for _ in steps]

    def work(i: int) -> None:
        found[i] = [np.asarray(steps[i](a)) for _ in range(5)]

    workers = [threading.Thread(target=work, args=(i,)) for i in range(len(steps))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for results in found:
        assert len(results) == 5
        for result in results:
            np.testing.assert_array_equal(result, alone)


def test_the_work_space_is_in_the_report() -> None:
    """A batch has work space for 16 matrices at most, of at most 32 MB together."""

    def arena(*shape: int) -> int:
        a = np.zeros(shape, np.float32)
        step = scalify.jit(jnp.linalg.cholesky, recipe="none")
        return step.memory(a)["arena"]

    assert arena(64, 64, 64) < 3 * 64 * 64 * 64 * 4
    # A matrix of 64 MB has work space for itself alone.
    assert arena(2, 4096, 4096) < 5.5 * 4096 * 4096 * 4
