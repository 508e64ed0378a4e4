"""Conventions of names in pytrees of frontends, by which arguments get roles.

The compiler finds roles by the flow of data. A name decides where the flow says nothing: an update
alone has no forward that would tell a parameter from a moment, and of two arguments that are
multiplied either may be the weight. An array that the forward reads keeps its role, as the weights
of a layer called `mu`; so does a batch that multiplies trained weights, as one called `params`.
"""

from __future__ import annotations

__all__ = ["CONVENTIONS"]


def _field(*names: str) -> str:
    """Returns a regular expression (POSIX) for a field of a path, as `mu` in "opt[0].mu['w']"."""
    return rf"(^|[].['\"[])({'|'.join(names)})($|[].['\"[])"


# Optimizer state: optax, PyTorch (`exp_avg`), and their kin.
_MOMENTS = (
    *("mu", "nu", "trace", "sum_of_squares", "v_row", "v_col", "e_g", "e_x"),
    *("momentum", "moments", "exp_avg", "exp_avg_sq"),
)
# The kinds of state, among which names choose.
_STATE = ["master", "moment", "state"]

# Rows of [pattern, role, roles that it replaces], for the compiler's option `roles`.
CONVENTIONS: list[list[object]] = [
    [_field(*_MOMENTS), "moment", _STATE],
    [_field("master", "master_params"), "master", _STATE],
    # The root of the model's tree.
    [r"^(params|param|weights|model|variables)($|[.['\"])", "param", ["batch", "scalar", "state"]],
]
