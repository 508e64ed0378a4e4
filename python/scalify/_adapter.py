"""Base class of steps on a framework's objects, which wrap a compiled function of pytrees."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

from scalify._decorate import jit
from scalify._jit import Jit
from scalify._transform import Transformed, transform

__all__ = ["TRANSFORM_KEYWORDS", "Adapter", "Backend", "compile_with_backend", "split_keywords"]

Backend = Literal["scalify", "transform"]


# Keyword arguments that a transformed function takes beside the caller's.
TRANSFORM_KEYWORDS = ("scale_state", "amax_history", "rounding_key")


def split_keywords(
    kwargs: dict[str, Any], backend: Backend
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the caller's keyword arguments, and those of the transformation."""
    own = {
        key: kwargs[key] for key in TRANSFORM_KEYWORDS if backend == "transform" and key in kwargs
    }
    return {key: value for key, value in kwargs.items() if key not in own}, own


def compile_with_backend(
    backend: Backend, fn: Callable[..., Any], **options: Any
) -> Jit | Transformed:
    """Returns a function of pytrees compiled by `scalify.jit` or rewritten by `transform`.

    Raises:
        ValueError: the backend is unknown.
    """
    if backend == "scalify":
        return jit(fn, **options)
    if backend == "transform":
        return transform(fn, **options)
    raise ValueError(f"unknown backend '{backend}': expected scalify or transform")


class Adapter:
    """A step on a framework's objects around the `Jit` or `Transformed` that computes it.

    Forwards all attributes of `step` that take no arguments of the step: `state`, `restore`,
    `rescale`, `recompile`, `widened`, `mesh`, `recipe`, `statistics`.

    Attributes:
        step: the compiled function of pytrees.
    """

    def __init__(self, fn: Callable[..., Any], step: Jit | Transformed) -> None:
        self.step = step
        for name in functools.WRAPPER_ASSIGNMENTS:
            if hasattr(fn, name):
                setattr(self, name, getattr(fn, name))
        self.__wrapped__ = fn

    def _to_step_arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Converts the caller's arguments to those of `step`."""
        raise NotImplementedError

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
        """Returns the results of `step`, and the state that a transformed step adds to them."""
        results = self.step(*args, **kwargs)
        is_given = "scale_state" in kwargs or "amax_history" in kwargs
        if isinstance(self.step, Transformed) and (self.step.is_delayed or is_given):
            results, *state = results
            return results, tuple(state)
        return results, ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs one step."""
        raise NotImplementedError

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name == "step" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.step, name)

    def _forward(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        method = getattr(self.step, name)
        if args or kwargs:
            args, kwargs = self._to_step_arguments(args, kwargs)
        return method(*args, **kwargs)

    def init_state(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the initial state of scales; see `Transformed.init_state`."""
        return self._forward("init_state", args, kwargs)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Returns shapes and dtypes of the results, as a tree; compiles nothing."""
        raise NotImplementedError

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """Traces the step for arguments of these types; see `Jit.trace`."""
        return self._forward("trace", args, kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """Traces and lowers the step for arguments of these types; see `Jit.lower`."""
        return self._forward("lower", args, kwargs)

    def executable(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the `Executable` for these arguments, or that of the last call."""
        return self._forward("executable", args, kwargs)

    def memory(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the bytes of the plan for these arguments; see `Jit.memory`."""
        return self._forward("memory", args, kwargs)

    def report(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the `Report` for these arguments, or that of the last call."""
        return self._forward("report", args, kwargs)

    def health(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the counters of the last step's casts; see `Jit.health`."""
        return self._forward("health", args, kwargs)

    def scales(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the scales of the arguments; see `Jit.scales`."""
        return self._forward("scales", args, kwargs)
