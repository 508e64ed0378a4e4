"""The script of all GPU checks on a machine without one: prepared small, run on a recording."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GPU = ROOT / "integration" / "gpu"
BUILD = pathlib.Path(os.environ.get("SCALIFY_BUILD", ROOT / "build")).resolve()
# Those that run a step of ours.
KINDS = {"values", "losses", "streams", "training", "gemm", "step", "block"}


def run(folder: pathlib.Path, out: pathlib.Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Runs the dry run; returns its exit status and its report."""
    command = [GPU / "run.sh", "--dry-run", "--folder", folder, *arguments, out]
    build = folder.parent / "build"
    environment = {**os.environ, "PYTHON": sys.executable, "SCALIFY_GPU_BUILD": str(build)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert out.exists(), done.stdout + done.stderr
    return done.returncode, json.loads(out.read_text())


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("gpu") / "small"
    subprocess.run([sys.executable, GPU / "prepare.py", "--small", "--out", folder], check=True)
    # A runtime that was built elsewhere, from these sources, is used as it is.
    runtime = folder.parent / "build" / "runtime"
    runtime.mkdir(parents=True)
    shutil.copy(BUILD / "lib" / "libscalify_runtime.so", runtime)
    sources = [str(folder / "include"), "runtime"]
    paths = [path for top in sources for path in (ROOT / top).rglob("*") if path.is_file()]
    # run.sh names them relative to the repository, in the order of bytes.
    names = sorted(
        str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path) for path in paths
    )
    found = hashlib.sha256()
    for name in names:
        found.update((ROOT / name).read_bytes())
    (runtime / "sum").write_text(f"{found.hexdigest()}  -\n")
    return folder


@pytest.fixture(scope="module")
def report(prepared: pathlib.Path) -> dict[str, Any]:
    status, found = run(prepared, prepared.parent / "dry.json")
    assert status == 0, found["checks"]
    return found


def plan_of(folder: pathlib.Path) -> list[dict[str, Any]]:
    plan: dict[str, Any] = json.loads((folder / "plan.json").read_text())
    checks: list[dict[str, Any]] = plan["checks"]
    return checks


def test_every_check_of_the_plan_is_reported(
    prepared: pathlib.Path, report: dict[str, Any]
) -> None:
    plan = plan_of(prepared)
    assert [entry["name"] for entry in report["checks"]] == [check["name"] for check in plan]
    assert {check["kind"] for check in plan} == KINDS | {
        *("xla", "xla_block", "transformer_engine"),
        *("sides", "layers", "casts", "gemms", "blocks", "micro_batches", "gap", "bars"),
    }
    for kind in (
        *("conversion", "kernel", "gemm", "attention", "20 steps", "training"),
        "one-rank NCCL",
        *("8B-shaped", "time of", "1.3B", "layer", "largest micro-batch"),
    ):
        assert any(check["name"].startswith(kind) for check in plan), kind


def test_the_runtime_builds_alone(tmp_path: pathlib.Path) -> None:
    """The build of run.sh is configured; its sources and flags are those of the whole build."""
    subprocess.run(["cmake", "-S", ROOT / "runtime", "-B", tmp_path], check=True)
    command = ["cmake", "--build", tmp_path, "--target", "help"]
    targets = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "scalify_runtime_shared" in targets


def test_steps_run_on_the_recording_and_nothing_passes(
    prepared: pathlib.Path, report: dict[str, Any]
) -> None:
    checks = {check["name"]: check for check in plan_of(prepared)}
    for entry in report["checks"]:
        ran = checks[entry["name"]]["kind"] in KINDS
        assert entry["status"] == ("recorded" if ran else "skipped"), entry
        if ran:
            figures = entry["figures"]
            kinds_of_work = ("launches", "products", "collectives")
            assert sum(figures[f"recorded_{kind}"] for kind in kinds_of_work) > 0
            if entry["name"].startswith("one-rank NCCL"):
                # Four kinds that move, two that join, by two joins of F32 and one of BF16; of so
                # few bytes a sum in order is one exchange, too.
                wanted = {"f32": 8, "bf16": 6, "f8E4M3FN": 4}
                element = entry["name"].split()[2].rstrip(",")
                assert figures["recorded_collectives"] == wanted[element]
                assert (figures["recorded_launches"] == 0) == ("in order" not in entry["name"])
            if "bias" in entry["name"] or "gradient of GELU" in entry["name"]:
                assert figures["recorded_epilogues"] == figures["recorded_products"] == 1
                assert figures["recorded_launches"] == 0
            if "ReLU and its gradient" in entry["name"]:
                assert figures["recorded_epilogues"] == figures["recorded_products"] == 2
                assert figures["recorded_launches"] == 0
            if " into f8" in entry["name"]:
                assert figures["recorded_casts"] == figures["recorded_products"] == 1
                assert figures["recorded_launches"] == 0
            if entry["name"].startswith("attention"):
                assert figures["recorded_attentions"] == 2
            # Forward and gradient of each layer by cuDNN, as jax.jit's.
            if entry["name"].startswith("8B-shaped"):
                assert figures["recorded_attentions"] == 2 * checks[entry["name"]]["layers"]
            if entry["name"].startswith("layer"):
                assert figures["recorded_attentions"] == 2
            if entry["name"].startswith("time of gemm") and checks[entry["name"]]["bare"]:
                assert figures["recorded_products"] == 4
            if "cap" in checks[entry["name"]]:
                assert figures["memory_planned"] <= checks[entry["name"]]["cap"]
        else:
            assert entry["reason"]


def test_a_dry_run_has_no_times(report: dict[str, Any]) -> None:
    assert report["simulated"] is True and report["machine"]["gpu"] is None
    text = json.dumps(report["checks"])
    assert not re.search(r'"(ms\w*|seconds|tflops|validation|losses)"', text)
    results = subprocess.run(
        ["git", "status", "--porcelain", "benchmarks/results"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "gpu-" not in results.stdout


def test_a_missing_artefact_is_a_failure(prepared: pathlib.Path) -> None:
    folder = prepared.parent / "wrong"
    shutil.copytree(prepared, folder)
    plan = json.loads((folder / "plan.json").read_text())
    gemms = [check for check in plan["checks"] if check["name"].startswith("gemm")]
    gemms[0]["artefact"] = "absent.scalify"
    (folder / "plan.json").write_text(json.dumps(plan))
    status, found = run(folder, prepared.parent / "wrong.json", "--only", "gemm*")
    entries = {entry["name"]: entry for entry in found["checks"]}
    assert status == 1
    assert entries[gemms[0]["name"]]["status"] == "failed"
    assert "absent.scalify" in entries[gemms[0]["name"]]["reason"]
    # What comes after it still runs.
    assert entries[gemms[1]["name"]]["status"] == "recorded"


def test_parts_of_a_run_make_one_report(prepared: pathlib.Path) -> None:
    out = prepared.parent / "parts.json"
    for pattern in ("gemm*", "kernel*"):
        status, found = run(prepared, out, "--only", pattern)
        assert status == 0
    names = [entry["name"] for entry in found["checks"] if entry["status"] == "recorded"]
    assert {name.split()[0] for name in names} == {"gemm", "kernel"}


def test_what_was_run_is_not_run_again(prepared: pathlib.Path) -> None:
    out = prepared.parent / "again.json"
    _, found = run(prepared, out, "--only", "gemm*")
    assert len(found["not_run"]) > len(found["checks"])
    mark = {"marked": 1}
    first = next(entry for entry in found["checks"] if entry["name"].startswith("gemm"))
    first["figures"] = mark
    out.write_text(json.dumps(found))
    figures = []
    for more in ((), ("--again",)):
        _, after = run(prepared, out, "--only", "gemm*", *more)
        by_name = {entry["name"]: entry for entry in after["checks"]}
        figures.append(by_name[first["name"]]["figures"])
    assert figures[0] == mark and figures[1] != mark


def test_no_check_begins_that_would_not_end_in_time(prepared: pathlib.Path) -> None:
    out = prepared.parent / "short.json"
    status, found = run(prepared, out, "--seconds", "0")
    assert status == 1 and not [e for e in found["checks"] if e["status"] == "recorded"]
    assert set(found["not_run"]) == {c["name"] for c in plan_of(prepared)} - {
        entry["name"] for entry in found["checks"]
    }


def test_a_report_of_another_plan_is_put_aside(prepared: pathlib.Path) -> None:
    out = prepared.parent / "other.json"
    _, found = run(prepared, out, "--only", "gemm*")
    found["prepared"]["commit"] = "another"
    out.write_text(json.dumps(found))
    _, after = run(prepared, out, "--only", "kernel*")
    assert json.loads((out.parent / "other-before-1.json").read_text()) == found
    ran = [entry["name"] for entry in after["checks"] if entry["status"] == "recorded"]
    assert ran and all(name.startswith("kernel") for name in ran)
