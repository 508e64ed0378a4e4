"""Packages that parts of Scalify need, which `pip install scalify[EXTRA]` installs."""

from __future__ import annotations

import importlib

__all__ = ["require"]


def require(what: str, extra: str, *modules: str) -> None:
    """Imports the packages that a part needs.

    Args:
        what: the part, as its user knows it.
        extra: of `pyproject.toml`, which has the packages.
        modules: their names in an import.

    Raises:
        ImportError: one is missing; says what to install.
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise ImportError(
                f"{what} needs {module} ({error}): pip install 'scalify[{extra}]'", name=module
            ) from error
