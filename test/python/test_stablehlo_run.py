"""The oracle itself: types, donation, errors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from stablehlo_run import run_stablehlo

TEXT = """
func.func public @main(
    %a: tensor<4xf32> {scalify.role = #scalify.role<param>, tf.aliasing_output = 0 : i32},
    %b: tensor<4xbf16>, %p: tensor<i1>) -> (tensor<4xf32>, tensor<4xf8E4M3FN>, tensor<i1>) {
  %0 = stablehlo.add %a, %a {scalify.phase = #scalify.phase<forward>} : tensor<4xf32>
  %1 = stablehlo.convert %b : (tensor<4xbf16>) -> tensor<4xf8E4M3FN>
  return %0, %1, %p : tensor<4xf32>, tensor<4xf8E4M3FN>, tensor<i1>
}
"""


def test_types_and_donation() -> None:
    a = np.arange(4, dtype=np.float32)
    b = np.array([1, -2, 448, 0.5], ml_dtypes.bfloat16)
    doubled, narrow, flag = run_stablehlo(TEXT, a, b, np.array(True))
    np.testing.assert_array_equal(doubled, [0, 2, 4, 6])
    np.testing.assert_array_equal(a, [0, 1, 2, 3])
    assert narrow.dtype == ml_dtypes.float8_e4m3fn
    np.testing.assert_array_equal(narrow.astype(np.float32), [1, -2, 448, 0.5])
    assert flag.dtype == np.bool_ and flag


def test_equals_jit_bit_for_bit() -> None:
    def function(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.exp(x) @ x.T, axis=1)

    x = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
    jitted = jax.jit(function)
    (result,) = run_stablehlo(jitted.lower(x).as_text(), x)
    np.testing.assert_array_equal(result, np.array(jitted(x)))


@pytest.mark.parametrize(
    ("text", "arrays", "message"),
    [
        (TEXT, (), "takes 3 arrays, not 0"),
        (TEXT, (np.zeros(4, np.float32),) * 3, r"argument 1 of @main is bfloat16\[4\]"),
        ("module { foo.bar }", (), "does not accept"),
        (
            'func.func @main() { "scalify.scale_hint"() : () -> () \n return }',
            (),
            "'scalify.scale_hint' is not StableHLO",
        ),
        ("func.func @other() { return }", (), "no function @main"),
    ],
)
def test_errors(text: str, arrays: tuple[np.ndarray, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_stablehlo(text, *arrays)
