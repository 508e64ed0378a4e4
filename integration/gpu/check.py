"""Runs the checks of a plan, and writes a report after each one; run.sh builds and calls it.

Checks run in a separate process: a fault of a GPU makes its process unusable, and a check that
hangs must be ended. The process runs checks until one fails. Checks of an earlier call are not
repeated: an interrupted call is resumed.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import multiprocessing
import multiprocessing.connection
import pathlib
import re
import sys
import time
import traceback
from typing import Any

import common

import derive
import kinds
import machine

__all__ = ["main"]

ROOT = pathlib.Path(__file__).resolve().parents[2]
Entry = dict[str, Any]
# The status of a successful check; a dry run computes nothing, so it passes nothing.
PASSED, RECORDED = "passed", "recorded"
# Seconds to end a process and write a report.
MARGIN = 5.0


def serve(pipe: multiprocessing.connection.Connection, settings: common.Settings) -> None:
    """Runs the checks that come through a pipe, and answers with their outcomes."""
    while (check := pipe.recv()) is not None:
        pipe.send(attempt(check, settings))


def attempt(check: Entry, settings: common.Settings) -> Entry:
    """Runs one check."""
    done = RECORDED if settings.simulated else PASSED
    try:
        return {"status": done, "figures": kinds.KINDS[check["kind"]](check, settings)}
    except common.Skip as skipped:
        return {"status": "skipped", "reason": str(skipped), "figures": {}}
    except common.Wrong as wrong:
        return {"status": "failed", "reason": wrong.text, "figures": wrong.figures}
    except Exception as error:
        where = traceback.format_exc(limit=-3)
        reason = f"{type(error).__name__}: {error}"
        return {"status": "failed", "reason": reason, "figures": {}, "where": where}


class Worker:
    """The process that runs checks, replaced after a failure."""

    def __init__(self, settings: common.Settings) -> None:
        self._settings = settings
        # A forked child would share the parent's state of CUDA and of jax.
        self._context = multiprocessing.get_context("spawn")
        self._process: Any = None
        self._pipe: Any = None

    def run(self, check: Entry, seconds: float) -> Entry | None:
        """Runs a check within its budget.

        Returns None if `seconds` are less than the budget and ended the check.
        """
        if check.get("fresh"):
            self.stop()
        if self._process is None:
            self._start()
        self._pipe.send(check)
        try:
            if self._pipe.poll(min(check["budget"], seconds)):
                answer: Entry = self._pipe.recv()
            elif seconds < check["budget"]:
                self.stop()
                return None
            else:
                answer = {"status": "failed", "reason": f"took over {check['budget']} s"}
        except (EOFError, ConnectionError):
            self._process.join()
            answer = {"status": "failed", "reason": f"died, status {self._process.exitcode}"}
        if answer["status"] == "failed" or check.get("fresh"):
            self.stop()
        return {"figures": {}, **answer}

    def _start(self) -> None:
        self._pipe, other = self._context.Pipe()
        self._process = self._context.Process(target=serve, args=(other, self._settings))
        self._process.start()
        other.close()

    def stop(self) -> None:
        """Ends the process, even within a check."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None


def derived(check: Entry, found: dict[str, Entry], simulated: bool) -> Entry:
    """Returns the figures derived from other checks, or skips if these have none."""
    if simulated:
        return {"status": "skipped", "reason": "a dry run has no figures", "figures": {}}
    figures = derive.DERIVED[check["kind"]](check, found)
    if not figures:
        return {"status": "skipped", "reason": "the checks it needs did not pass", "figures": {}}
    wrong = figures.pop("wrong", False)
    return {"status": "failed" if wrong else PASSED, "figures": figures}


def summary(plan: Entry, found: dict[str, Entry], settings: common.Settings) -> Entry:
    """Returns the report so far, in the order of the plan."""
    keys = ["name", "status", "reason", "seconds", "driver", "figures", "where"]
    if settings.simulated:
        keys.remove("seconds")
    entries = [found[check["name"]] for check in plan["checks"] if check["name"] in found]
    missing = [check["name"] for check in plan["checks"] if check["name"] not in found]
    return {
        "simulated": settings.simulated,
        "device": settings.device,
        "machine": machine.about(settings.simulated),
        "prepared": {key: plan[key] for key in ("commit", "date", "small")},
        "not_run": missing,
        "checks": [{key: entry[key] for key in keys if key in entry} for entry in entries],
    }


def write(path: pathlib.Path, report: Entry) -> None:
    """Writes a report atomically: an interrupted run leaves the last complete one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def default_path(settings: common.Settings) -> pathlib.Path:
    """Returns a report's path: in benchmarks/results, or beside the plan for a dry run."""
    if settings.simulated:
        return settings.folder.parent / "gpu-dry-run.json"
    about = machine.about(simulated=False)
    name = re.sub(r"[^a-z0-9]+", "-", (about["gpu"] or {}).get("name", "unknown").lower())
    return ROOT / "benchmarks" / "results" / f"gpu-{about['date'][:10]}-{name}.json"


def _fits(report: Entry, now: Entry) -> bool:
    """True if figures belong together: of one plan, and of equal GPUs."""
    if any(report[key] != now[key] for key in ("simulated", "device", "prepared")):
        return False
    # Each entry has its driver, which may differ between machines of the same kind.
    gpus = [dict(side["machine"]["gpu"] or {}) for side in (report, now)]
    for gpu in gpus:
        gpu.pop("driver_version", None)
    return gpus[0] == gpus[1]


def earlier(plan: Entry, settings: common.Settings, out: pathlib.Path) -> dict[str, Entry]:
    """Returns the entries of an earlier report of the same plan and GPU; renames any other one."""
    if not out.exists():
        return {}
    report = json.loads(out.read_text(encoding="utf-8"))
    if not _fits(report, summary(plan, {}, settings)):
        number = 1
        while (aside := out.with_name(f"{out.stem}-before-{number}{out.suffix}")).exists():
            number += 1
        out.rename(aside)
        print(f"{out} is of another plan or another GPU: kept as {aside}, not reused", flush=True)
        return {}
    checks = {check["name"]: check for check in plan["checks"]}
    kept = [entry for entry in report["checks"] if entry["name"] in checks]
    return {entry["name"]: {**entry, "check": checks[entry["name"]]} for entry in kept}


def run(
    plan: Entry, settings: common.Settings, out: pathlib.Path, only: str, again: bool, until: float
) -> dict[str, Entry]:
    """Runs the checks whose names match a pattern; returns them and earlier ones by name.

    Args:
        plan: of prepare.py.
        settings: paths and the device.
        out: the report's file.
        only: the pattern.
        again: whether to repeat checks that an earlier report has.
        until: the time.monotonic() at which everything must be written.
    """
    found = earlier(plan, settings, out)
    driver = (machine.about(settings.simulated)["gpu"] or {}).get("driver_version")
    worker = Worker(settings)
    try:
        for check in plan["checks"]:
            name, left = check["name"], until - MARGIN - time.monotonic()
            is_derived = check["kind"] in derive.DERIVED
            if not is_derived and not (
                fnmatch.fnmatch(name, only) and (again or name not in found)
            ):
                continue
            # A later check may be shorter.
            if not is_derived and left < check["expect"]:
                continue
            started = time.perf_counter()
            if is_derived:
                answer: Entry | None = derived(check, found, settings.simulated)
            else:
                answer = worker.run(check, left)
            if answer is None:
                print(f"cut off  {name}", flush=True)
                continue
            seconds = round(time.perf_counter() - started, 3)
            entry = {"name": name, "check": check, "seconds": seconds}
            if driver is not None and not is_derived:
                entry["driver"] = driver
            found[name] = entry | answer
            if not is_derived:
                said = f"{answer['status']:9}{name}  {answer.get('reason', '')}"
                print(f"{said.rstrip()}  {seconds:.1f} s", flush=True)
            write(out, summary(plan, found, settings))
    finally:
        worker.stop()
    return found


def show(plan: Entry, found: dict[str, Entry]) -> None:
    """Prints the derived figures, the bars last."""
    for check in plan["checks"]:
        entry = found.get(check["name"])
        if check["kind"] in derive.DERIVED and entry and entry["figures"]:
            print(f"{check['name']}:")
            for name, row in entry["figures"].items():
                print(f"  {name}: {json.dumps(row)}")


def main() -> int:
    """Runs the command; returns 1 if a check failed or none ran."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="of prepare.py")
    parser.add_argument("--library", type=pathlib.Path, required=True)
    parser.add_argument("--bench", type=pathlib.Path, help="the program of gemm_bench.cpp")
    parser.add_argument("--device", choices=["cuda", "null"], default="cuda")
    parser.add_argument("--only", default="*", help="checks whose names match, as '8B*'")
    parser.add_argument("--again", action="store_true", help="also those that ran before")
    parser.add_argument("--seconds", type=float, default=1e9, help="end within so many seconds")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    plan = json.loads((options.folder / "plan.json").read_text(encoding="utf-8"))
    settings = common.Settings(options.folder, options.library, options.bench, options.device)
    out = options.out or default_path(settings)
    until = time.monotonic() + options.seconds
    found = run(plan, settings, out, options.only, options.again, until)
    show(plan, found)
    counts = {
        status: sum(entry["status"] == status for entry in found.values())
        for status in (PASSED, RECORDED, "failed", "skipped")
    }
    said = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
    missing = sum(check["name"] not in found for check in plan["checks"])
    print(f"{said or 'no check was run'}{f', {missing} not run yet' if missing else ''}: {out}")
    ran = any(entry["check"]["kind"] not in derive.DERIVED for entry in found.values())
    return int(bool(counts["failed"]) or not ran)


if __name__ == "__main__":
    sys.exit(main())
