"""Takes a compiled step and its arguments out of a running program."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax

from scalify._jit import Jit
from scalify._lowering import Arguments, Signature
from scalify._nested import is_traced
from scalify._transform import Transformed
from scalify.check.flow import takes_gradients
from scalify.check.program import copied

__all__ = ["Call", "Capture", "Watched"]

# Options of jax.jit that a step's program depends on.
_OPTIONS = ("static_argnums", "static_argnames", "donate_argnums", "donate_argnames")


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of a compiled step.

    Attributes:
        signature: of the step.
        arguments: copies, as a step may donate its own.
        recipe: of the step, if `scalify.jit` compiled it.
    """

    signature: Signature
    arguments: Arguments
    recipe: str | None = None


class _StopError(BaseException):
    """Unwinds the program once its step is known; not an Exception, which programs catch."""


class Capture:
    """Watches what `jax.jit` and `scalify.jit` compile, and keeps calls of a step.

    A function that `jax.jit` compiled outside of `watching` is not seen.

    Attributes:
        seen: the names of all compiled functions that were called, in order.
    """

    def __init__(self) -> None:
        self._wanted: _Wanted | None = None
        self._real: tuple[Any, Any, Any] = (jax.jit, Jit.__call__, Transformed.__call__)
        self.seen: list[str] = []

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Returns a context in which calls are watched."""
        self._real = (jax.jit, Jit.__call__, Transformed.__call__)
        _, scalify_call, transformed_call = self._real

        def call(step: Any, *args: Any, **kwargs: Any) -> Any:
            self.look(step, step._signature, args, kwargs, step.recipe)
            return scalify_call(step, *args, **kwargs)

        def call_transformed(step: Any, *args: Any, **kwargs: Any) -> Any:
            self.look(step, step._signature, args, kwargs, step.recipe)
            return transformed_call(step, *args, **kwargs)

        _install(functools.partial(_jit, self, self._real[0]), call, call_transformed)
        try:
            yield
        finally:
            self._wanted = None
            _install(*self._real)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Returns a context, within `watching`, in which nothing is watched."""
        watched = (jax.jit, Jit.__call__, Transformed.__call__)
        _install(*self._real)
        try:
            yield
        finally:
            _install(*watched)

    def calls_within(
        self,
        run: Callable[[], Any],
        *,
        function: str | None = None,
        count: int = 1,
        needs_gradients: bool = True,
        done: Callable[[list[Call]], None] = lambda calls: None,
    ) -> list[Call]:
        """Runs a program until its step has been called, and ends it before the last of the calls.

        Args:
            run: the program.
            function: the name of the step; None for the first compiled function that qualifies.
            count: of calls to keep; all but the last one run.
            needs_gradients: whether only functions that take gradients qualify.
            done: called with the calls, inside the last one.

        Returns:
            The calls; fewer if the program has fewer, and none if it calls no such function.
        """
        wanted = self._wanted = _Wanted(function, count, needs_gradients, done)
        with contextlib.suppress(_StopError):
            run()
        self._wanted = None
        return wanted.calls

    def look(
        self,
        step: Any,
        signature: Signature,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        recipe: str | None = None,
    ) -> None:
        """Looks at a call; keeps it if it is one of the step's."""
        wanted = self._wanted
        if wanted is None or is_traced():
            return
        if wanted.step is None:
            if id(step) in wanted.passed:
                return
            self.seen.append(signature.name)
            if not wanted.is_met_by(signature, args, kwargs):
                wanted.passed[id(step)] = step
                return
            wanted.step = step
        if wanted.step is not step:
            return
        arguments = signature.bind(args, kwargs)
        leaves = [copied(leaf) for leaf in arguments.leaves]
        arguments = dataclasses.replace(arguments, leaves=leaves)
        wanted.calls.append(Call(signature, arguments, recipe))
        if len(wanted.calls) == wanted.count:
            self._wanted = None
            wanted.done(wanted.calls)
            raise _StopError


@dataclasses.dataclass
class _Wanted:
    """Which step is looked for, and what is known of it; `passed` are functions that are not it."""

    function: str | None
    count: int
    needs_gradients: bool
    done: Callable[[list[Call]], None]
    step: Any = None
    passed: dict[int, Any] = dataclasses.field(default_factory=dict)
    calls: list[Call] = dataclasses.field(default_factory=list)

    def is_met_by(self, signature: Signature, args: tuple[Any, ...], kwargs: Any) -> bool:
        if self.function is not None:
            return signature.name == self.function
        if not self.needs_gradients:
            return True
        traced = signature.trace(signature.bind(args, kwargs))
        return takes_gradients(traced.jaxpr.jaxpr)


class Watched:
    """A function under `jax.jit` whose calls a capture sees."""

    def __init__(self, capture: Capture, fn: Any, jitted: Any, options: dict[str, Any]) -> None:
        self._capture, self._jitted = capture, jitted
        known = {key: value for key, value in options.items() if key in _OPTIONS}
        self._signature = Signature(fn, **known)
        functools.update_wrapper(self, fn, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Shows the call to the capture, and runs it."""
        self._capture.look(self, self._signature, args, kwargs)
        return self._jitted(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name in ("_jitted", "_capture", "_signature"):
            raise AttributeError(name)
        return getattr(self._jitted, name)


def _jit(capture: Capture, real: Callable[..., Any], fn: Any = None, /, **options: Any) -> Any:
    """Stands for `jax.jit` while a capture watches."""
    if fn is None:
        fn = options.pop("fun", None)
        if fn is None:
            return functools.partial(_jit, capture, real, **options)
    return Watched(capture, fn, real(fn, **options), options)


def _install(jit: Any, call: Any, transformed: Any) -> None:
    """Sets what `jax.jit` and calls of compiled steps do."""
    jax.jit = jit
    Jit.__call__ = call  # type: ignore[method-assign]
    Transformed.__call__ = transformed  # type: ignore[method-assign]
