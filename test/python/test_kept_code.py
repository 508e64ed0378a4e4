"""Code of kernels that a folder keeps between processes: SCALIFY_CACHE."""

from __future__ import annotations

import hashlib
import os
import pathlib
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("SCALIFY_BUILD", pathlib.Path(__file__).parents[2] / "build"))


def program(width: int, more: int = 0) -> str:
    """Returns a program of one kernel, and more of other widths."""
    widths = range(width, width + more + 1)
    kinds = [f"tensor<{one}xf32>" for one in widths]
    lines = [
        f"%y{one} = stablehlo.tanh %x{one} : {kind}"
        for one, kind in zip(widths, kinds, strict=True)
    ]
    arguments = ", ".join(f"%x{one}: {kind}" for one, kind in zip(widths, kinds, strict=True))
    results = ", ".join(f"%y{one}" for one in widths)
    return "\n".join(
        [
            f"func.func public @main({arguments}) -> ({', '.join(kinds)}) {{",
            *lines,
            f"return {results} : {', '.join(kinds)}",
            "}",
        ]
    )


def compiled(text: str, *options: str, status: int = 0, **environment: object) -> tuple[bytes, str]:
    """Returns the artefact, which a process of its own makes, and what the process says."""
    command = [BUILD / "bin" / "scalify-compile", "-", "-o", "-", *options]
    env = {name: text for name, text in os.environ.items() if not name.startswith("SCALIFY_CACHE")}
    env |= {name: str(value) for name, value in environment.items()}
    done = subprocess.run(command, input=text.encode(), env=env, capture_output=True)
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr.decode()


def entries(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted(path for path in folder.iterdir() if path.name != "llvmcache.timestamp")


def age(paths: list[pathlib.Path]) -> None:
    for path in paths:
        os.utime(path, (1e9, path.stat().st_mtime))


@pytest.mark.parametrize("options", [(), ("--target=sm_90a", "--ptxas=none")], ids=["cpu", "gpu"])
def test_another_process_reads_the_code(options: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "code"
    wanted = compiled(program(64), *options)
    assert compiled(program(64), *options, SCALIFY_CACHE=folder) == wanted
    (entry,) = entries(folder)
    age([entry])
    before = entry.stat()
    assert compiled(program(64), *options, SCALIFY_CACHE=folder) == wanted
    assert entries(folder) == [entry]
    assert entry.stat().st_mtime_ns == before.st_mtime_ns
    assert entry.stat().st_atime > before.st_atime
    # Another kernel is another entry.
    assert compiled(program(96), *options, SCALIFY_CACHE=folder) == compiled(program(96), *options)
    assert len(entries(folder)) == 2


def test_cpus_have_their_own_code(tmp_path: pathlib.Path) -> None:
    for count, cpu in enumerate(["x86-64-v3", "haswell", "x86-64-v3"]):
        found = compiled(program(64), f"--mcpu={cpu}", SCALIFY_CACHE=tmp_path)
        assert found == compiled(program(64), f"--mcpu={cpu}")
        assert len(entries(tmp_path)) == min(count + 1, 2)


@pytest.mark.parametrize("damage", ["cut", "emptied", "changed", "of another kernel"])
def test_damaged_code_is_made_again(damage: str, tmp_path: pathlib.Path) -> None:
    wanted, _ = compiled(program(64), SCALIFY_CACHE=tmp_path)
    (entry,) = entries(tmp_path)
    whole = entry.read_bytes()
    compiled(program(96), SCALIFY_CACHE=tmp_path)
    (other,) = set(entries(tmp_path)) - {entry}
    middle = len(whole) // 2
    damaged = {
        "cut": whole[:middle],
        "emptied": b"",
        "changed": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
        "of another kernel": other.read_bytes(),
    }
    entry.write_bytes(damaged[damage])
    assert compiled(program(64), SCALIFY_CACHE=tmp_path)[0] == wanted
    assert entry.read_bytes() == whole


def test_the_folder_has_a_bound(tmp_path: pathlib.Path) -> None:
    compiled(program(64), SCALIFY_CACHE=tmp_path)
    (first,) = entries(tmp_path)
    age([first])
    # It is looked at once a minute.
    (tmp_path / "llvmcache.timestamp").unlink()
    most = first.stat().st_size * 3 // 2
    compiled(program(96), SCALIFY_CACHE=tmp_path, SCALIFY_CACHE_BYTES=most)
    (kept,) = entries(tmp_path)
    assert kept != first


def test_a_folder_that_cannot_be_used_is_a_warning(tmp_path: pathlib.Path) -> None:
    text = program(64, more=3)
    wanted, _ = compiled(text)
    for folder, bound, reason in (
        ("/dev/null/code", "1000", "/dev/null"),
        (tmp_path, "many", "SCALIFY_CACHE_BYTES must be a number of bytes, not 'many'"),
        (tmp_path, "0", "SCALIFY_CACHE_BYTES must be a number of bytes, not '0'"),
    ):
        found, said = compiled(text, SCALIFY_CACHE=folder, SCALIFY_CACHE_BYTES=bound)
        assert found == wanted
        assert said.count("warning") == 1 and f"the folder '{folder}' (SCALIFY_CACHE)" in said
        assert reason in said


def test_many_processes_at_once_write_whole_entries(tmp_path: pathlib.Path) -> None:
    command = [BUILD / "bin" / "scalify-compile", "-", "-o", "-"]
    running = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "SCALIFY_CACHE": str(tmp_path)},
        )
        for _ in range(4)
    ]
    outputs = {process.communicate(program(64).encode())[0] for process in running}
    assert [process.returncode for process in running] == [0] * 4
    assert outputs == {compiled(program(64))[0]}
    (entry,) = entries(tmp_path)
    # 16 bytes of a SHA-256 of the name and of the code, each behind its length.
    name, bytes_of = entry.name.removeprefix("llvmcache-"), entry.read_bytes()
    hashed = f"{len(name)}:{name}{len(bytes_of) - 32}:".encode() + bytes_of[32:]
    assert hashlib.sha256(hashed).hexdigest()[:32] == bytes_of[:32].decode()
