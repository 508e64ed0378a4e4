"""Conversion of state that a step stores narrow, by the scales that the step keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalify._dtypes import MASKED
from scalify._kept import STATE_SCALES, KeptState
from scalify._scaled_array import ScaledArray, Storage
from scalify._views import host_view

__all__ = ["StoredState"]


class StoredState:
    """Storage of an executable's arguments and results.

    A stage of a pipeline keeps the scales and knows the storage of all stages' state.
    """

    def __init__(
        self,
        kept: KeptState,
        args: Sequence[Mapping[str, Any]],
        results: Sequence[Mapping[str, Any]],
        pipeline: Mapping[str, Any] | None,
    ) -> None:
        """Reads the storage from a step's manifest.

        Args:
            kept: the state that the executable keeps.
            args: `Executable.args`.
            results: `Executable.results`.
            pipeline: of the manifest, for a stage.
        """
        self._kept = kept
        self._args = args
        self._own = [arg["storage"] for arg in args]
        aliases = (result["alias_arg"] for result in results)
        # A result is stored as the argument that it aliases.
        self._results = [None if alias is None else self._own[alias] for alias in aliases]
        self._is_plain = not any(self._own) and not any(self._results)
        self._all_args, self._all_results = self._own, self._results
        if pipeline is not None:
            self._all_args = _storages(pipeline["arg_types"])
            self._all_results = _storages(pipeline["result_types"])

    @property
    def arguments(self) -> list[Storage | None]:
        """The storage of the whole step's arguments; None for one that is not stored narrow."""
        return self._all_args

    def of_result(self, index: int) -> Storage | None:
        """Returns the storage of a result of the whole step, after the last step."""
        storage = self._all_results[index]
        return None if storage is None else storage.at(self._kept.get(STATE_SCALES))

    def adopt(self, given: Sequence[Storage | None]) -> None:
        """Sets the scales that a step keeps to those of the given arguments, where they fit.

        Args:
            given: the storage of the whole step's arguments.
        """
        self._adopt(given, self._all_args)

    def _adopt(self, given: Sequence[Storage | None], own: Sequence[Storage | None]) -> None:
        scales = self._kept.get(STATE_SCALES)
        if scales is None:
            return
        for theirs, storage in zip(given, own, strict=False):
            if theirs is not None and storage is not None and storage.may_adopt(theirs):
                scales[storage.scale_index] = 2.0**theirs.exponent
        self._kept.set(STATE_SCALES, scales)

    def take(self, arrays: Sequence[Any]) -> list[Any]:
        """Returns the runtime's arguments for the caller's arguments of this executable.

        Raises:
            ValueError: an array is masked; the runtime would read what its mask hides.
        """
        kinds = set(map(type, arrays))
        if np.ma.MaskedArray in kinds:
            for index, array in enumerate(arrays):
                if isinstance(array, np.ma.MaskedArray):
                    raise ValueError(f"argument {index}: {MASKED}")
        if self._is_plain and ScaledArray not in kinds:
            return list(arrays)
        self._adopt(
            [array.storage if isinstance(array, ScaledArray) else None for array in arrays],
            self._own,
        )
        scales = self._kept.get(STATE_SCALES)
        inputs = [
            _narrow(array, argument, scales)
            for array, argument in zip(arrays, self._args, strict=False)
        ]
        return inputs + list(arrays[len(inputs) :])

    def give(self, results: Sequence[Any]) -> list[Any]:
        """Returns the caller's results for the runtime's results of this executable."""
        if self._is_plain:
            return list(results)
        scales = self._kept.get(STATE_SCALES)
        return [
            result if storage is None else ScaledArray(result, storage.at(scales))
            for result, storage in zip(results, self._results, strict=True)
        ]


def _storages(entries: Sequence[Mapping[str, Any]]) -> list[Storage | None]:
    stored = (entry.get("stored") for entry in entries)
    return [None if one is None else Storage(**one) for one in stored]


def _narrow(array: Any, argument: Mapping[str, Any], scales: NDArray[Any] | None) -> Any:
    """Returns the runtime's argument for `array`: narrow data if the argument is stored narrow."""
    if argument["storage"] is None:
        return np.asarray(array) if isinstance(array, ScaledArray) else array
    storage: Storage = argument["storage"].at(scales)
    if isinstance(array, ScaledArray) and array.storage == storage:
        return array.data
    values = np.asarray(host_view(array))
    if values.shape != argument["shape"] or values.dtype != np.float32:
        raise ValueError(
            f"argument '{argument['name']}' takes float32 of shape {argument['shape']}, which it "
            f"stores as {storage.dtype}, not {values.dtype} of shape {values.shape}"
        )
    return storage.narrow(values)
