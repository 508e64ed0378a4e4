"""Where a step comes from: a function with arguments, `file.py:function`, or a script."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import itertools
import os
import pathlib
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from scalify._adapter import Adapter
from scalify._jit import Jit
from scalify._transform import Transformed
from scalify.check.capture import Call, Capture, Watched

__all__ = ["EXAMPLE", "StepError", "calls_of_function", "calls_of_script", "calls_of_target"]

# The function beside a step that returns its arguments.
EXAMPLE = "example_args"


class StepError(ValueError):
    """No step could be checked; the message says why and what to do."""


def calls_of_function(step: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> list[Call]:
    """Returns the call of a step on its arguments, which is not run.

    Args:
        step: a function of trees of arrays, or of `scalify.jit`, `scalify.filter_jit`,
            `scalify.nnx.jit`.
        args: its arguments.
        kwargs: those given by name.

    Raises:
        StepError: the step was compiled before, by another `jit`.
    """
    capture = Capture()
    with capture.watching():
        return _calls_of(capture, step, tuple(args), kwargs)


def _calls_of(capture: Capture, step: Any, args: tuple[Any, ...], kwargs: Any) -> list[Call]:
    # A function that compiles itself is called as it is, so that its static arguments are known.
    compiled = step if _compiles_itself(step) else jax.jit(step)
    calls = capture.calls_within(lambda: compiled(*args, **kwargs), needs_gradients=False)
    if not calls:
        raise StepError(
            f"'{getattr(step, '__name__', step)}' was compiled before the check and cannot be "
            "looked into: give the function itself, without a jit around it, or let "
            "python -m scalify.check run the script or import 'file.py:function'"
        )
    return calls


def _compiles_itself(step: Any) -> bool:
    """Whether a callable is the result of a `jit` of ours, of JAX under watch, or a framework's."""
    if isinstance(step, (Jit, Transformed, Adapter, Watched)):
        return True
    return type(step).__module__.split(".")[0] in ("equinox", "flax")


def calls_of_target(file: str, name: str, example: str, steps: int) -> list[Call]:
    """Returns the call of `file.py:function`, and calls with the batches that follow.

    Args:
        file: of Python, or the name of a module.
        name: of the step in it.
        example: the name of the function that returns the step's arguments, a tuple. It may yield
            several tuples, one a step.
        steps: how many more calls are wanted.

    Raises:
        StepError: the file, the step or its arguments are missing.
    """
    capture = Capture()
    calls: list[Call] = []
    with capture.watching():  # from the import on, since decorators compile
        module = _load(file)
        step = _member(module, file, name)
        if not hasattr(module, example):
            raise StepError(
                f"'{file}' has no function '{example}': add 'def {example}():' that returns the "
                f"arguments of '{name}' as a tuple, or name another function by --args"
            )
        made = getattr(module, example)()
        several = made if hasattr(made, "__next__") else iter([made])
        for arguments in itertools.islice(several, steps + 1):
            calls += _calls_of(capture, step, _as_tuple(arguments), {})
    if not calls:
        raise StepError(f"'{example}' of '{file}' yields no arguments for '{name}'")
    return calls


def _as_tuple(arguments: Any) -> tuple[Any, ...]:
    return arguments if isinstance(arguments, tuple) else (arguments,)


def _load(file: str) -> Any:
    path = pathlib.Path(file)
    if path.suffix != ".py":
        sys.path.insert(0, os.getcwd())
        try:
            return importlib.import_module(file)
        except ModuleNotFoundError as error:
            raise StepError(
                f"there is no module '{file}' ({error}): give a file 'step.py:function', or a "
                "module that Python can import"
            ) from None
    if not path.is_file():
        raise StepError(f"there is no file '{file}'")
    with _script_folder(path):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
    return module


def _member(module: Any, file: str, name: str) -> Any:
    if not hasattr(module, name):
        known = [key for key, value in vars(module).items() if callable(value) and key[0] != "_"]
        raise StepError(f"'{file}' has no '{name}'; it has {', '.join(known[:20])}")
    return getattr(module, name)


@contextlib.contextmanager
def _script_folder(path: pathlib.Path) -> Iterator[None]:
    """Returns a context in which a script imports what lies beside it."""
    sys.path.insert(0, str(path.resolve().parent))
    try:
        yield
    finally:
        sys.path.pop(0)


def calls_of_script(
    file: str,
    arguments: Sequence[str],
    function: str | None,
    steps: int,
    found: Callable[[list[Call]], None],
) -> None:
    """Runs a script until it has called its step, and stops it there.

    The script's own step trains between the first and the last call.

    Args:
        file: the script.
        arguments: of the script's command line.
        function: the name of the step; None for the first compiled function that takes gradients.
        steps: how many calls after the first one to keep.
        found: called within the last call with all of them, before the script stops.

    Raises:
        StepError: the script ends without such a call.
    """
    path = pathlib.Path(file)
    if not path.is_file():
        raise StepError(f"there is no file '{file}': give a script, or 'module:function'")

    capture = Capture()
    argv, sys.argv = sys.argv, [file, *arguments]
    calls: list[Call] = []

    def run() -> None:
        with contextlib.suppress(SystemExit):
            runpy.run_path(file, run_name="__main__")

    def done(enough: list[Call]) -> None:
        with capture.paused():
            found(enough)

    try:
        with capture.watching(), _script_folder(path):
            calls = capture.calls_within(run, function=function, count=steps + 1, done=done)
    finally:
        sys.argv = argv
    if len(calls) == steps + 1:
        return
    if calls:  # the script has fewer steps than were asked for
        found(calls)
        return
    seen = ", ".join(dict.fromkeys(capture.seen)) or "nothing"
    wanted = "called no compiled step that takes gradients"
    if function is not None:
        wanted = f"did not call '{function}' under jax.jit or scalify.jit"
    raise StepError(
        f"'{file}' {wanted} (it called {seen}). A step that is compiled by .lower().compile(), or "
        "in another process, is not seen: give it as 'file.py:function' with a function "
        f"'{EXAMPLE}' that returns its arguments"
    )
