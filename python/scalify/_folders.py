"""Folders of checkpoints: one rename gives a complete one its name, all others are leftovers.

    run/step-00000012/rank-00003-of-00004.safetensors, ..., checkpoint.json
    run/.unfinished-step-00000013-4711      of a save that is in progress or was interrupted

A step that a resumed run saves again is `step-00000012.1`, beside the first `step-00000012`.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import secrets
import shutil
import zlib
from typing import Any

from scalify._tensor_file import DamagedError, TensorFile

__all__ = [
    "Saving",
    "candidates",
    "check",
    "checkpoints",
    "file_name",
    "open_file",
    "prune",
    "read_manifest",
    "step_and_repeat",
]

MANIFEST = "checkpoint.json"
_UNFINISHED = ".unfinished-"
_NAME = re.compile(r"step-(\d+)(?:\.(\d+))?")
_VERSION = 1


def step_and_repeat(folder: pathlib.Path) -> tuple[int, int]:
    """Returns the step in a checkpoint's name, and how often that step was saved before.

    Raises:
        ValueError: the name is not that of a checkpoint.
    """
    match = _NAME.fullmatch(folder.name)
    if match is None:
        raise ValueError(f"'{folder}' is not named as a checkpoint, such as 'step-00000012'")
    return int(match.group(1)), int(match.group(2) or 0)


def checkpoints(base: pathlib.Path) -> list[pathlib.Path]:
    """Returns the folders named as checkpoints, newest first."""
    try:
        found = [folder for folder in base.iterdir() if _NAME.fullmatch(folder.name)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(found, key=step_and_repeat, reverse=True)


def file_name(rank: int, ranks: int) -> str:
    """Returns the name of a rank's file."""
    return f"rank-{rank:05d}-of-{ranks:05d}.safetensors"


class Saving:
    """A folder that becomes a checkpoint; the first rank makes it and gives it its name."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    @staticmethod
    def begin(base: pathlib.Path, step: int) -> Saving:
        """Makes the folder, and removes those of interrupted saves."""
        missing = [folder for folder in (base, *base.parents) if not folder.exists()]
        base.mkdir(parents=True, exist_ok=True)
        for folder in missing:
            _sync(folder.parent)
        for rubbish in base.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(rubbish, ignore_errors=True)
        folder = base / f"{_UNFINISHED}step-{step:08d}-{secrets.token_hex(4)}"
        folder.mkdir()
        return Saving(folder)

    def finish(self, step: int, content: dict[str, Any]) -> pathlib.Path:
        """Writes the manifest and renames the folder; call it when all ranks have written.

        Returns:
            The checkpoint's folder.
        """
        text = json.dumps({"version": _VERSION, **content})
        with (self.folder / MANIFEST).open("w", encoding="utf-8") as file:
            file.write(f'{{"crc32": {zlib.crc32(text.encode())},\n"content": {text}}}\n')
            file.flush()
            os.fsync(file.fileno())
        _sync(self.folder)
        base = self.folder.parent
        again = [
            step_and_repeat(one)[1] + 1
            for one in checkpoints(base)
            if step_and_repeat(one)[0] == step
        ]
        suffix = f".{max(again)}" if again else ""
        target = base / f"step-{step:08d}{suffix}"
        self.folder.rename(target)
        _sync(base)
        return target


def _sync(folder: pathlib.Path) -> None:
    """Waits until a folder's entries are on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def prune(written: pathlib.Path, keep: int) -> None:
    """Removes checkpoints older than the newest `keep` intact ones up to the one just written.

    The one just written counts as the first. Older ones are checked, newest first, until enough
    intact ones are found; damaged ones do not count. Later ones, left by a run that was resumed
    from an earlier step, are kept.
    """
    base, own = written.parent, step_and_repeat(written)
    earlier = [folder for folder in checkpoints(base) if step_and_repeat(folder) < own]
    wanted = keep - 1
    if len(earlier) <= wanted:
        return
    while earlier and wanted:
        wanted -= _is_whole(earlier.pop(0))
    for folder in earlier:
        # A partly removed folder must not have a checkpoint's name.
        rubbish = base / f"{_UNFINISHED}{folder.name}-{secrets.token_hex(4)}"
        folder.rename(rubbish)
        shutil.rmtree(rubbish, ignore_errors=True)


def _is_whole(folder: pathlib.Path) -> bool:
    """Whether a checkpoint's manifest and file sizes are intact."""
    try:
        check(folder)
    except DamagedError:
        return False
    return True


def read_manifest(folder: pathlib.Path) -> dict[str, Any]:
    """Returns a checkpoint's manifest.

    Raises:
        DamagedError: the manifest is missing or damaged.
    """
    path = folder / MANIFEST
    try:
        lines = path.read_text(encoding="utf-8").split("\n", 1)
        text = lines[1].removeprefix('"content": ').removesuffix("}\n")
        if int(lines[0].removeprefix('{"crc32": ').removesuffix(",")) != zlib.crc32(text.encode()):
            raise ValueError
        content: dict[str, Any] = json.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        raise DamagedError(f"'{path}' is missing") from None
    except (ValueError, IndexError):
        raise DamagedError(f"'{path}' is not what was written") from None
    if content["version"] != _VERSION:
        raise DamagedError(
            f"'{path}' is of version {content['version']}, and this program reads {_VERSION}"
        )
    return content


def open_file(folder: pathlib.Path, manifest: dict[str, Any], rank: int) -> TensorFile:
    """Returns the file that one of the saving ranks wrote.

    Raises:
        DamagedError: the file is not as written.
    """
    size, header = manifest["files"][rank]
    return TensorFile(folder / file_name(rank, len(manifest["files"])), size, header)


def check(folder: pathlib.Path) -> dict[str, Any]:
    """Returns the manifest of a checkpoint after a check that its files have the right sizes.

    Raises:
        DamagedError: a file is missing or has another size or header.
    """
    manifest = read_manifest(folder)
    for rank in range(len(manifest["files"])):
        open_file(folder, manifest, rank)
    return manifest


def candidates(path: pathlib.Path, step: int | None) -> list[pathlib.Path]:
    """Returns the checkpoints that may be loaded, in the order in which to try them.

    Args:
        path: of a run, or of one checkpoint.
        step: if given, only the last save of this step.

    Raises:
        ValueError: `path` is a checkpoint of another step.
    """
    if _NAME.fullmatch(path.name) and path.is_dir():
        if step is not None and (own := step_and_repeat(path)[0]) != step:
            raise ValueError(f"checkpoint '{path}' is of step {own}, not {step}")
        return [path]
    found = checkpoints(path)
    return found if step is None else [one for one in found if step_and_repeat(one)[0] == step][:1]
