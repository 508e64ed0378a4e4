"""scalify.jit: its arguments, and checks that they are compatible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, cast

import jax

from scalify._groups import Groups, regroup
from scalify._jit import Jit
from scalify._lowering import Signature
from scalify._ranks import abstract_mesh
from scalify._settings import Settings, moves
from scalify._wrapper import again, with_options
from scalify.mesh import Mesh
from scalify.options import GPU, Distribution, Numerics
from scalify.recipe import Recipe, RecipeLike

__all__ = ["jit"]


def jit(
    fn: Callable[..., Any] | None = None,
    recipe: RecipeLike = "fp8",
    target: str = "cpu",
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    keep_unused: bool = False,
    inline: bool = False,
    in_shardings: Any = None,
    out_shardings: Any = None,
    distribution: Distribution | Mesh | None = None,
    numerics: Numerics | None = None,
    gpu: GPU | None = None,
    strict: bool = False,
    mcpu: str | None = None,
    threads: int = 0,
    report: str = "brief",
    fallback: Literal["xla"] | None = None,
    **deprecated: Any,
) -> Jit:
    """Returns `fn` compiled under a recipe: pytrees in, pytrees out, donated arguments in place.

    Compiles at the first call for each structure, shapes, dtypes and static values, as `jax.jit`
    does. The scales of arguments are measured at that first call, never again.

    Args:
        fn: a JAX function of pytrees of arrays, unmodified. Without it the result is a decorator of
            functions and methods: `@scalify.jit(recipe="fp8")`.
        recipe: a preset's name (see `scalify.recipes()`), a `#scalify.recipe<...>`, or a
            `scalify.Recipe`.
        target: "cpu", or "sm_90a" or "h200", which need no GPU to compile.
        static_argnums: positions of arguments that are not arrays, as for `jax.jit`.
        static_argnames: their names.
        donate_argnums: positions of arguments whose memory the results take over.
        donate_argnames: their names.
        keep_unused: accepted as by `jax.jit`; a step has all its arguments either way.
        inline: accepted likewise; a step within another one is inlined either way.
        in_shardings: trees of `jax.sharding.PartitionSpec`s over the mesh's axes, as for `jax.jit`:
            the layout of arguments on the ranks. None leaves it to the partitioner. Without ranks,
            JAX's shardings of one device are accepted, and change nothing.
        out_shardings: the same for results. For a donated argument, best give both.
        distribution: how the step runs on several ranks; also a bare `scalify.Mesh`.
        numerics: the sources of scales, and the policy for casts that clip.
        gpu: how the step runs on a GPU.
        strict: make an op without a rule, or a dot that misses its format, an error.
        mcpu: the CPU whose instructions kernels may use; if not given, the x86-64 level of this
            machine. Results do not depend on it.
        threads: 0 for one per core that the process may use. Results do not depend on it.
        report: "full" keeps every value, its facts and their sources in the artefact.
        fallback: "xla" runs ops that the CPU target lacks (an FFT of a large prime length) by
            XLA inside the step; the report lists them. None makes them errors.
        **deprecated: fields of the groups as arguments of their own, accepted for one more release.

    Raises:
        TypeError: an argument is unknown, or given twice.
        ValueError: options are incompatible with each other, or with the recipe.
    """
    groups, given = regroup("jit", locals())
    if fn is None:
        return cast(Jit, with_options(jit, given))
    if groups.distribution.mesh is None and _are_of_one_device((in_shardings, out_shardings)):
        in_shardings = out_shardings = None
    shardings = {"in_shardings": in_shardings, "out_shardings": out_shardings}
    _check_ranks(groups, (in_shardings, out_shardings))
    _check_moving_scales(groups, recipe)
    settings = Settings.of(groups, given)
    ranks = groups.distribution
    signature = Signature(
        fn,
        static_argnums,
        static_argnames,
        donate_argnums,
        donate_argnames,
        shardings,
        abstract_mesh(ranks.mesh, ranks.pipeline),
        str(recipe),
    )
    step = Jit(signature, settings)
    step.made_by = again(jit, given)
    return step


def _are_of_one_device(shardings: Any) -> bool:
    """Whether shardings spread no array, as JAX's of a mesh of one device do.

    A `PartitionSpec` is over the mesh of `jax.set_mesh`.
    """
    mesh = jax.sharding.get_abstract_mesh()

    def is_spec(one: Any) -> bool:
        return isinstance(one, jax.sharding.PartitionSpec)

    return all(
        not mesh.empty and mesh.size == 1
        if is_spec(one)
        else isinstance(one, jax.sharding.Sharding) and one.num_devices == 1
        for one in jax.tree.leaves(shardings, is_leaf=is_spec)
    )


def _check_ranks(groups: Groups, shardings: tuple[Any, Any]) -> None:
    """Checks that the ranks are compatible with shardings and numerics.

    Raises:
        ValueError: they are not.
    """
    mesh, pipeline = groups.distribution.mesh, groups.distribution.pipeline
    if mesh is None and any(one is not None for one in shardings):
        raise ValueError("shardings need a mesh: distribution=scalify.make_mesh(data=4)")
    if pipeline is None:
        return
    pipeline.check(mesh, shardings, groups.distribution.zero)
    policy = groups.numerics.policy
    if policy is not None and policy.action in ("rescale", "widen"):
        raise ValueError(
            f"health policy '{policy.action}' with pipeline=: a stage counts its own casts alone, "
            "and the others would differ; leave one of the two out"
        )
    if groups.numerics.adaptive_scales:
        raise ValueError(
            "adaptive_scales=True with pipeline=: a stage counts its own casts alone, and scales "
            "that follow counts would differ"
        )


def _check_moving_scales(groups: Groups, recipe: RecipeLike) -> None:
    """Checks that the recipe allows scales that are moved by counts.

    Raises:
        ValueError: the recipe moves scales itself.
    """
    if moves(groups.numerics) and Recipe.of(recipe).is_delayed:
        raise ValueError(
            f"recipe '{recipe}' moves scales by the amaxes of earlier steps: leave out "
            "adaptive_scales and the health policy 'rescale', which move them by counts"
        )
