"""Folders of checkpoints: whole ones have their name from one rename, all else is rubbish.

    run/step-00000012/rank-00003-of-00004.safetensors, ..., checkpoint.json
    run/.unfinished-step-00000013-4711      of a save that goes on, or was cut off

A step that is saved again, by a run that went back, is `step-00000012.1` beside the first one.
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
    "number_of",
    "open_file",
    "prune",
    "read_manifest",
]

MANIFEST = "checkpoint.json"
_UNFINISHED = ".unfinished-"
_NAME = re.compile(r"step-(\d+)(?:\.(\d+))?")
_VERSION = 1


def number_of(folder: pathlib.Path) -> tuple[int, int]:
    """Returns the step of a checkpoint's name, and how often it was saved before.

    Raises:
        ValueError: it is no such name.
    """
    match = _NAME.fullmatch(folder.name)
    if match is None:
        raise ValueError(f"'{folder}' has no name of a checkpoint, such as 'step-00000012'")
    return int(match.group(1)), int(match.group(2) or 0)


def checkpoints(base: pathlib.Path) -> list[pathlib.Path]:
    """Returns the folders with names of checkpoints, the newest first."""
    try:
        found = [folder for folder in base.iterdir() if _NAME.fullmatch(folder.name)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(found, key=number_of, reverse=True)


def file_name(rank: int, ranks: int) -> str:
    """Returns the name of a rank's file."""
    return f"rank-{rank:05d}-of-{ranks:05d}.safetensors"


class Saving:
    """A folder that becomes a checkpoint; the first rank makes it and gives it its name."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    @staticmethod
    def begin(base: pathlib.Path, step: int) -> Saving:
        """Makes the folder, and removes those of saves that were cut off."""
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
        """Writes the manifest and gives the folder its name, when all ranks have written.

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
        again = [number_of(one)[1] + 1 for one in checkpoints(base) if number_of(one)[0] == step]
        suffix = f".{max(again)}" if again else ""
        target = base / f"step-{step:08d}{suffix}"
        self.folder.rename(target)
        _sync(base)
        return target


def _sync(folder: pathlib.Path) -> None:
    """Returns when a folder's entries are on the disk."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def prune(written: pathlib.Path, keep: int) -> None:
    """Removes what is older than the newest `keep` whole checkpoints up to one just written.

    That one is the first of them. Of those before it only as many are looked at as count, and
    those that are damaged do not. Later ones stay, which a run that went back has left.
    """
    base, own = written.parent, number_of(written)
    earlier = [folder for folder in checkpoints(base) if number_of(folder) < own]
    wanted = keep - 1
    if len(earlier) <= wanted:
        return
    while earlier and wanted:
        wanted -= _is_whole(earlier.pop(0))
    for folder in earlier:
        # What is half removed shall not have a checkpoint's name.
        rubbish = base / f"{_UNFINISHED}{folder.name}-{secrets.token_hex(4)}"
        folder.rename(rubbish)
        shutil.rmtree(rubbish, ignore_errors=True)


def _is_whole(folder: pathlib.Path) -> bool:
    """Whether a quick look finds a checkpoint whole."""
    try:
        check(folder)
    except DamagedError:
        return False
    return True


def read_manifest(folder: pathlib.Path) -> dict[str, Any]:
    """Returns what a checkpoint holds.

    Raises:
        DamagedError: the folder holds no whole manifest.
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
    """Returns the file of one of the ranks that saved.

    Raises:
        DamagedError: it is not what was written.
    """
    size, header = manifest["files"][rank]
    return TensorFile(folder / file_name(rank, len(manifest["files"])), size, header)


def check(folder: pathlib.Path) -> dict[str, Any]:
    """Returns the manifest of a checkpoint whose files are there, of the right sizes.

    Raises:
        DamagedError: they are not.
    """
    manifest = read_manifest(folder)
    for rank in range(len(manifest["files"])):
        open_file(folder, manifest, rank)
    return manifest


def candidates(path: pathlib.Path, step: int | None) -> list[pathlib.Path]:
    """Returns what may be loaded, what comes first first.

    Args:
        path: of a run, or of a checkpoint itself.
        step: of the only one that is wanted, as it was saved last.

    Raises:
        ValueError: it is a checkpoint of another step.
    """
    if _NAME.fullmatch(path.name) and path.is_dir():
        if step is not None and (own := number_of(path)[0]) != step:
            raise ValueError(f"checkpoint '{path}' is of step {own}, not {step}")
        return [path]
    found = checkpoints(path)
    return found if step is None else [one for one in found if number_of(one)[0] == step][:1]
