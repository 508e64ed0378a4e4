"""Checkpoints: their files, blocks of layouts, damage, and leaves that do not fit."""

from __future__ import annotations

import math
import os
import pathlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from rank_threads import on_meshes
from safetensors import safe_open
from safetensors.numpy import load_file

import scalify
from scalify import checkpoint
from scalify._scaled_array import ScaledArray, Storage
from scalify.mesh import Mesh, Parts, Shard, Shares

WHOLE = np.arange(5 * 6 * 4, dtype=np.float32).reshape(5, 6, 4)
# Ways in which an array of [5, 6, 4] lies on 4 ranks, 2, 3 or 8, as manifests have them.
LAYOUTS: dict[int, list[Parts | Shares]] = {
    2: [Parts((5, 6, 4), ((), ((1, 2),), ()))],
    3: [Shares(Parts((5, 6, 4), ((), (), ())), Parts((120,), (((1, 3),),)))],
    4: [
        # Columns on two ranks, which two have alike.
        Parts((5, 6, 4), ((), (), ((2, 2),))),
        # Two axes along one dimension, the minor one first.
        Parts((5, 6, 4), ((), (), ((1, 2), (2, 2)))),
        # Shares of 30 elements, and of 32, of which the last have two that stand for nothing.
        Shares(Parts((5, 6, 4), ((), (), ())), Parts((120,), (((1, 4),),))),
        Shares(Parts((5, 6, 4), ((), (), ())), Parts((128,), (((1, 4),),))),
        # Of each of five slices shares of 6 elements, and of 7 with two that stand for nothing.
        Shares(Parts((5, 6, 4), ((), (), ())), Parts((5, 24), ((), ((1, 4),)))),
        Shares(Parts((5, 6, 4), ((), (), ())), Parts((5, 28), ((), ((1, 4),)))),
        # Shares of halves of slices.
        Shares(Parts((5, 6, 4), ((), (), ((1, 2),))), Parts((5, 28), ((), ((1, 2), (2, 2))))),
        # Shares of halves: rows that do not begin where blocks do.
        Shares(Parts((5, 6, 4), ((), ((1, 2),), ())), Parts((124,), (((1, 2), (2, 2)),))),
    ],
    8: [Shares(Parts((5, 6, 4), ((), (), ((4, 2),))), Parts((120,), (((4, 2), (1, 4)),)))],
}


def spread(layout: Parts | Shares | None, mesh: Mesh, whole: Any = WHOLE) -> Any:
    return whole if layout is None else Shard(layout.cut(whole, mesh.rank), layout, mesh)


@pytest.mark.parametrize("index", range(len(LAYOUTS[4])))
def test_what_4_ranks_save_others_load(index: int, tmp_path: pathlib.Path) -> None:
    layout = LAYOUTS[4][index]
    on_meshes(
        {"data": 4},
        lambda mesh: checkpoint.save(tmp_path, {"x": spread(layout, mesh)}, 7, mesh=mesh),
    )
    # Nobody has written what another one has.
    files = sorted((tmp_path / "step-00000007").glob("*.safetensors"))
    assert len(files) == 4
    written = sum(array.size for file in files for array in load_file(file).values())
    assert written == (math.prod(layout.row.shape) if isinstance(layout, Shares) else WHOLE.size)
    alone = checkpoint.load(tmp_path, {"x": WHOLE})
    assert alone.step == 7
    np.testing.assert_array_equal(alone.tree["x"], WHOLE)
    for ranks, layouts in LAYOUTS.items():
        for other in layouts:

            def load(mesh: Mesh, other: Parts | Shares = other) -> Any:
                like = {"x": spread(other, mesh, np.zeros_like(WHOLE))}
                return checkpoint.load(tmp_path, like, mesh=mesh).tree["x"]

            found = on_meshes({"data": ranks}, load)
            for rank, shard in enumerate(found):
                np.testing.assert_array_equal(shard.data, other.cut(WHOLE, rank))
            np.testing.assert_array_equal(other.join([shard.data for shard in found]), WHOLE)


def test_a_rank_of_many_reads_a_checkpoint_when_its_step_takes_it(tmp_path: pathlib.Path) -> None:
    large = np.arange(40_000, dtype=np.int32).reshape(200, 200)
    checkpoint.save(tmp_path, {"x": large, "small": np.float32(2)}, 1)
    layout = Parts((200, 200), ((), ((1, 4),)))

    def load(mesh: Mesh) -> Any:
        return checkpoint.load(tmp_path, {"x": large, "small": np.float32(0)}, mesh=mesh).tree

    for rank, tree in enumerate(on_meshes({"data": 4}, load)):
        assert isinstance(tree["x"], checkpoint.Saved)
        assert isinstance(tree["small"], np.ndarray)
        np.testing.assert_array_equal(tree["x"].part(layout, rank), layout.cut(large, rank))
        np.testing.assert_array_equal(np.asarray(tree["x"]), large)


def test_many_keys_are_keys_on_many_ranks(tmp_path: pathlib.Path) -> None:
    keys = jax.random.split(jax.random.key(5), 10_000)
    checkpoint.save(tmp_path, {"keys": keys}, 1)
    found = on_meshes(
        {"data": 2}, lambda mesh: checkpoint.load(tmp_path, {"keys": keys}, mesh=mesh)
    )
    for _, tree in found:
        assert tree["keys"].dtype == keys.dtype
        np.testing.assert_array_equal(jax.random.key_data(tree["keys"]), jax.random.key_data(keys))


def test_leaves_of_every_kind(tmp_path: pathlib.Path) -> None:
    storage = Storage("f8E4M3FN", -3, root=True)
    narrow = np.arange(6).reshape(2, 3).astype(ml_dtypes.float8_e4m3fn)
    tree = {
        "f32": jnp.arange(3.0),
        "bf16": np.arange(4).astype(ml_dtypes.bfloat16),
        "bool": np.array([True, False]),
        "none": None,
        "empty": np.zeros((0, 3), np.int8),
        "scalar": np.uint32(7),
        "python": (3, 2.5, True),
        "key": jax.random.key(5),
        "keys": jax.random.split(jax.random.key(5, impl="rbg"), 3),
        "array": scalify._runtime.array(np.arange(5.0)),
        "narrow": ScaledArray(narrow, storage),
    }
    checkpoint.save(tmp_path, tree, 0)
    step, found = checkpoint.load(tmp_path, tree)
    assert step == 0
    pairs = zip(jax.tree_util.tree_leaves_with_path(tree), jax.tree.leaves(found), strict=True)
    for (path, leaf), other in pairs:
        name = jax.tree_util.keystr(path)
        if name in ("['key']", "['keys']"):
            assert other.dtype == leaf.dtype
            leaf, other = jax.random.key_data(leaf), jax.random.key_data(other)
        if "python" in name:
            assert type(other) is type(leaf)
        assert np.asarray(other).dtype == np.asarray(leaf).dtype
        np.testing.assert_array_equal(np.asarray(other), np.asarray(leaf))
    assert found["narrow"].storage == storage
    assert np.asarray(found["narrow"].data).tobytes() == narrow.tobytes()
    # What is not asked for by a tree comes by its name.
    assert checkpoint.load(tmp_path).tree["['python'][1]"] == 2.5


def test_other_tools_read_the_files(tmp_path: pathlib.Path) -> None:
    tree = {"w": WHOLE, "b": np.arange(3).astype(ml_dtypes.bfloat16)}
    folder = checkpoint.save(tmp_path, tree, 12)
    assert folder.name == "step-00000012"
    (file,) = folder.glob("*.safetensors")
    assert file.stat().st_mode == (folder / "checkpoint.json").stat().st_mode
    with safe_open(file, framework="np") as found:
        assert set(found.keys()) == {"['w']", "['b']"}
        np.testing.assert_array_equal(found.get_tensor("['w']"), WHOLE)
        np.testing.assert_array_equal(found.get_tensor("['b']"), tree["b"])


def three(folder: pathlib.Path) -> list[pathlib.Path]:
    return [checkpoint.save(folder, {"x": WHOLE + step}, step) for step in (1, 2, 3)]


def cut_off(folder: pathlib.Path) -> None:
    (file,) = folder.glob("*.safetensors")
    os.truncate(file, file.stat().st_size - 1)


def flip(name: str, at: int) -> Callable[[pathlib.Path], None]:
    def damage(folder: pathlib.Path) -> None:
        (file,) = folder.glob(name)
        content = bytearray(file.read_bytes())
        content[at] ^= 1
        file.write_bytes(content)

    return damage


DAMAGE: dict[str, tuple[Callable[[pathlib.Path], None], str]] = {
    "a file is cut off": (cut_off, "bytes where"),
    "a file is missing": (lambda folder: next(folder.glob("*.safetensors")).unlink(), "is missing"),
    "no manifest": (lambda folder: (folder / "checkpoint.json").unlink(), "json' is missing"),
    "manifest cut off": (
        lambda folder: os.truncate(folder / "checkpoint.json", 100),
        "not what was",
    ),
    "a bit of the manifest": (flip("checkpoint.json", 60), "not what was"),
    "a bit of a header": (flip("*.safetensors", 20), "header"),
    "a bit of an array": (flip("*.safetensors", -5), r"'\['x'\]' in"),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_what_is_damaged_is_passed_over(kind: str, tmp_path: pathlib.Path) -> None:
    damage, words = DAMAGE[kind]
    *_, before, last = three(tmp_path)
    damage(last)
    with pytest.warns(UserWarning, match=words):
        step, tree = checkpoint.load(tmp_path, {"x": WHOLE})
    assert step == 2
    np.testing.assert_array_equal(tree["x"], WHOLE + 2)
    if "array" not in kind:  # which `latest` does not read
        with pytest.warns(UserWarning, match="step-00000003' is damaged"):
            assert checkpoint.latest(tmp_path) == before
    with pytest.raises(checkpoint.DamagedError, match=words):
        checkpoint.load(tmp_path, {"x": WHOLE}, step=3)
    with pytest.raises(checkpoint.DamagedError, match=words):
        checkpoint.load(last, {"x": WHOLE})
    # It is saved anew beside the damaged one.
    again = checkpoint.save(tmp_path, {"x": WHOLE}, 3)
    assert checkpoint.latest(tmp_path) == again
    np.testing.assert_array_equal(checkpoint.load(tmp_path, step=3).tree["['x']"], WHOLE)


def test_every_bit_of_a_small_checkpoint_counts(tmp_path: pathlib.Path) -> None:
    folder = checkpoint.save(tmp_path, {"x": np.arange(3)}, 1)
    for file in folder.iterdir():
        content = file.read_bytes()
        for at in range(0, len(content), 29):
            damaged = bytearray(content)
            damaged[at] ^= 1 << at % 8
            file.write_bytes(damaged)
            with pytest.raises(checkpoint.DamagedError, match=file.name):
                checkpoint.load(tmp_path)
        file.write_bytes(content)
    np.testing.assert_array_equal(checkpoint.load(tmp_path).tree["['x']"], np.arange(3))


def test_old_ones_and_rubbish_go(tmp_path: pathlib.Path) -> None:
    assert checkpoint.latest(tmp_path / "none") is None
    with pytest.raises(FileNotFoundError, match="there is no checkpoint in"):
        checkpoint.load(tmp_path)
    rubbish = tmp_path / ".unfinished-step-00000001-00"
    rubbish.mkdir()
    (rubbish / "checkpoint.json").write_text("{}")
    assert checkpoint.latest(tmp_path) is None
    three(tmp_path)
    assert not rubbish.exists()
    checkpoint.save(tmp_path, {"x": WHOLE}, 4, keep=2)
    assert sorted(os.listdir(tmp_path)) == ["step-00000003", "step-00000004"]
    with pytest.raises(FileNotFoundError, match="no checkpoint of step 1"):
        checkpoint.load(tmp_path, step=1)


def test_what_was_just_written_stays(tmp_path: pathlib.Path) -> None:
    """A run falls back from damaged checkpoints to an older one, and goes on from that."""
    for step in (700, 800, 900, 1000):
        checkpoint.save(tmp_path, {"x": WHOLE + step}, step)
    # One that a quick look tells from a whole one, and one that it does not.
    cut_off(tmp_path / "step-00000900")
    flip("*.safetensors", -5)(tmp_path / "step-00001000")
    with pytest.warns(UserWarning, match="damaged"):
        assert checkpoint.load(tmp_path).step == 800
    later = ["step-00000900", "step-00001000"]
    for step in (810, 820):
        with pytest.warns(UserWarning, match="later steps.*'step-00001000'"):
            written = checkpoint.save(tmp_path, {"x": WHOLE + step}, step, keep=2)
        assert written.is_dir()
        before = "step-00000800" if step == 810 else "step-00000810"
        assert sorted(os.listdir(tmp_path)) == [before, written.name, *later]
        with pytest.warns(UserWarning, match="damaged"):
            found = checkpoint.load(tmp_path)
        assert found.step == step
        np.testing.assert_array_equal(found.tree["['x']"], WHOLE + step)
    # Of those before it, only whole ones count; none is left out for one that is damaged.
    cut_off(tmp_path / "step-00000820")
    checkpoint.save(tmp_path, {"x": WHOLE}, 1000, keep=2)
    assert sorted(os.listdir(tmp_path)) == ["step-00001000", "step-00001000.1"]
    cut_off(tmp_path / "step-00001000")
    checkpoint.save(tmp_path, {"x": WHOLE}, 1010, keep=1)
    assert os.listdir(tmp_path) == ["step-00001010"]


def test_one_whole_checkpoint_stays_behind_damaged_ones(tmp_path: pathlib.Path) -> None:
    first, second, third = three(tmp_path)
    cut_off(second)
    cut_off(third)
    checkpoint.save(tmp_path, {"x": WHOLE}, 4, keep=2)
    # Those that are damaged lie between two whole ones, which alone count.
    assert first.is_dir()
    with pytest.raises(checkpoint.DamagedError):
        checkpoint.load(tmp_path, step=2)
    checkpoint.save(tmp_path, {"x": WHOLE}, 5, keep=2)
    assert sorted(os.listdir(tmp_path)) == ["step-00000004", "step-00000005"]


def test_what_cannot_be_removed_is_told_as_such(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    three(tmp_path)

    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(checkpoint._folders, "prune", refuse)

    def save(mesh: Mesh) -> tuple[str, str]:
        try:
            checkpoint.save(tmp_path, {"x": WHOLE}, 4, mesh=mesh, keep=2)
        except (OSError, RuntimeError) as error:
            return type(error).__name__, str(error)
        return "", ""

    for rank, (kind, text) in enumerate(on_meshes({"data": 2}, save)):
        assert kind == ("OSError" if rank == 0 else "RuntimeError")
        assert "not saved" not in text
        assert "step 4 was saved, and older ones were not removed" in text
        assert "Permission denied" in text
    assert checkpoint.load(tmp_path).step == 4


def test_what_does_not_fit_is_named(tmp_path: pathlib.Path) -> None:
    checkpoint.save(tmp_path, {"x": WHOLE, "y": 3}, 1)
    cases: list[tuple[Any, str]] = [
        ({"z": WHOLE, "y": 3}, r"has no leaf '\['z'\]'"),
        ({"x": WHOLE[1:], "y": 3}, r"is float32\[5, 6, 4\], and float32\[4, 6, 4\] in `like`"),
        ({"x": WHOLE.astype(np.float64), "y": 3}, r"and float64\[5, 6, 4\] in `like`"),
        ({"x": WHOLE, "y": 3.0}, "is a Python int, and a Python float"),
        ({"x": WHOLE, "y": "3"}, r"leaf '\['y'\]' of `like` is a str"),
        ({"x": WHOLE, "y": 3j}, r"leaf '\['y'\]' of `like` is a complex"),
        ({"x": WHOLE}, r"1 leaves that are not in `like`, as '\['y'\]'"),
    ]
    for like, words in cases:
        with pytest.raises(ValueError, match=words):
            checkpoint.load(tmp_path, like)
    found = checkpoint.load(
        tmp_path, {"x": jax.ShapeDtypeStruct((5, 6, 4), "float32")}, partial=True
    )
    np.testing.assert_array_equal(found.tree["x"], WHOLE)
    with pytest.raises(ValueError, match="leaf 'value' of type str"):
        checkpoint.save(tmp_path, "text", 2)
    with pytest.raises(ValueError, match="leaf 'value' of type complex is complex128"):
        checkpoint.save(tmp_path, 3j, 2)
    with pytest.raises(ValueError, match="step-00000001' is of step 1, not 5"):
        checkpoint.load(tmp_path / "step-00000001", {"x": WHOLE, "y": 3}, step=5)
    assert checkpoint.load(tmp_path / "step-00000001", step=1).step == 1
    with pytest.raises(ValueError, match="expected 0 or more"):
        checkpoint.save(tmp_path, WHOLE, -1)


def test_a_rank_that_cannot_write_is_an_error_on_all(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint.save(tmp_path, {"x": WHOLE}, 1)
    real = checkpoint.write

    def full(path: pathlib.Path, arrays: Any) -> Any:
        if path.name.startswith("rank-00002"):
            raise OSError(28, "No space left on device")
        return real(path, arrays)

    monkeypatch.setattr(checkpoint, "write", full)

    def save(mesh: Mesh) -> tuple[str, str]:
        try:
            checkpoint.save(tmp_path, {"x": spread(LAYOUTS[4][1], mesh)}, 2, mesh=mesh)
        except (OSError, RuntimeError) as error:
            return type(error).__name__, str(error)
        return "", ""

    for rank, (kind, text) in enumerate(on_meshes({"data": 4}, save)):
        assert kind == ("OSError" if rank == 2 else "RuntimeError")
        assert "No space left" in text
        assert rank == 2 or "step 2 was not saved, since rank 2 failed" in text
    assert checkpoint.load(tmp_path).step == 1


def test_a_file_that_cannot_be_read_is_not_passed_over(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    three(tmp_path)
    real = checkpoint.Reader.file

    def refused(reader: Any, rank: int) -> Any:
        if reader.folder.name == "step-00000003":
            raise PermissionError(13, "Permission denied")
        return real(reader, rank)

    monkeypatch.setattr(checkpoint.Reader, "file", refused)
    with pytest.raises(PermissionError):
        checkpoint.load(tmp_path)

    def load(mesh: Mesh) -> tuple[str, str]:
        try:
            checkpoint.load(tmp_path, mesh=mesh)
        except (OSError, RuntimeError) as error:
            return type(error).__name__, str(error)
        return "", ""

    # Of two ranks the first looks at the only file.
    (first, _), (second, text) = on_meshes({"data": 2}, load)
    assert (first, second) == ("PermissionError", "RuntimeError")
    assert "was not loaded, since rank 0 failed: PermissionError" in text
    monkeypatch.undo()
    # What has a checkpoint's name and is none is damaged.
    (tmp_path / "step-00000004").write_text("")
    with pytest.warns(UserWarning, match="step-00000004' is damaged"):
        assert checkpoint.load(tmp_path).step == 3


def test_ranks_have_one_answer(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If each rank looked itself, a later one could see a checkpoint that another did not."""
    *_, last = three(tmp_path)
    found = [last, None, None, None]

    def newest(*_: Any) -> Any:
        return found.pop(0), []

    monkeypatch.setattr(checkpoint, "_newest", newest)
    answers = on_meshes({"data": 4}, lambda mesh: checkpoint.latest(tmp_path, mesh=mesh))
    assert answers == [last] * 4
    assert len(found) == 3
    monkeypatch.undo()
    none = on_meshes({"data": 4}, lambda mesh: checkpoint.latest(tmp_path / "none", mesh=mesh))
    assert none == [None] * 4


def test_new_folders_are_on_the_disk(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    real = checkpoint._folders._sync

    def sync(folder: pathlib.Path) -> None:
        synced.append(folder)
        real(folder)

    monkeypatch.setattr(checkpoint._folders, "_sync", sync)
    checkpoint.save(tmp_path / "a" / "b" / "run", {"x": WHOLE}, 1)
    assert {tmp_path, tmp_path / "a", tmp_path / "a" / "b"} <= set(synced)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda rank: {"x": np.full(3, rank // 3)}, r"leaf '\['x'\]' is not the same on rank"),
        (lambda rank: [1] * (1 + rank // 2), "trees of [12] and [12] leaves"),
    ],
)
def test_ranks_save_the_same(make: Any, words: str, tmp_path: pathlib.Path) -> None:
    def save(mesh: Mesh) -> None:
        with pytest.raises(ValueError, match=words):
            checkpoint.save(tmp_path, make(mesh.rank), 1, mesh=mesh)

    on_meshes({"data": 4}, save)
    assert checkpoint.latest(tmp_path) is None


def test_damage_that_one_rank_sees_all_pass_over(tmp_path: pathlib.Path) -> None:
    layout = LAYOUTS[4][2]
    for step in (1, 2):
        on_meshes(
            {"data": 4},
            lambda mesh, step=step: checkpoint.save(
                tmp_path, {"x": spread(layout, mesh)}, step, mesh=mesh
            ),
        )
    flip("rank-00003*", -1)(tmp_path / "step-00000002")
    with pytest.warns(UserWarning, match="rank-00003"):
        found = on_meshes({"data": 2}, lambda mesh: checkpoint.load(tmp_path, mesh=mesh).step)
    assert found == [1, 1]
