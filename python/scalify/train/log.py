"""The logs of a run: JSON lines, a progress display, events for TensorBoard."""

from __future__ import annotations

import json
import os
import pathlib
import resource
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from scalify._extras import require
from scalify.train.settings import Config

__all__ = ["SMOOTHING", "Log", "cast_health", "memory_of_process", "read_records"]

# The share that a smoothed curve keeps at each step, in the progress display and on the page.
SMOOTHING = 0.9


def read_records(path: pathlib.Path) -> Iterator[dict[str, Any]]:
    """Yields the records of log.jsonl; a line that a kill cut short is left out."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue


def cast_health(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Returns what a step's record says of its casts.

    `saturated` and `flushed` are shares of all cast values. `casts` is the number of casts, `moved`
    that of casts whose scale differs from the step before.

    Args:
        rows: of `Jit.health`; none of a step that casts nothing.
    """
    casts = [row for row in rows if "saturated" in row]
    total = sum(row["elements"] for row in casts)
    if not total:
        return {}
    shares = {name: sum(row[name] for row in casts) / total for name in ("saturated", "flushed")}
    moved = sum(bool(row.get("moved")) for row in casts)
    return shares | {"casts": len(casts), "moved": moved}


def memory_of_process() -> int:
    """Returns the largest resident memory of this process so far, in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


class Log:
    """Writes the records of a run; only the first rank makes one."""

    def __init__(self, config: Config, start: int) -> None:
        """Opens the run's log, and drops records of steps after `start`, which come again."""
        self.config = config
        folder = pathlib.Path(config.log.folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "log.jsonl"
        kept = [record for record in read_records(self.path) if record["step"] <= start]
        beside = self.path.with_suffix(".partial")
        beside.write_text("".join(json.dumps(record) + "\n" for record in kept), encoding="utf-8")
        os.replace(beside, self.path)
        self._file = self.path.open("a", encoding="utf-8", buffering=1)
        self._events = _events(folder, start) if config.log.tensorboard else None
        self._display = _Display(config.train.steps, start, config.log.every)

    def say(self, text: str) -> None:
        """Shows a line of text."""
        self._display.say(text)

    def record(self, kind: str, step: int, **values: Any) -> None:
        """Writes one record, with `kind` "step", "evaluation", "sample" or "wide"."""
        self._file.write(json.dumps({"kind": kind, "step": step, **values}) + "\n")
        if self._events is not None:
            for name, value in values.items():
                if isinstance(value, str):
                    self._events.add_text(f"{kind}/{name}", value, step)
                else:
                    self._events.add_scalar(f"{kind}/{name}", value, step)
        if kind == "step":
            self._display.step(step, values)
        elif kind == "evaluation":
            self.say(f"step {step}: validation loss {values['loss']:.4f}")
        elif kind == "wide":
            self.say(
                f"step {step}: {values['cast']} is wide from here on, since at several checks in a "
                f"row {values['reason']}"
            )
        else:
            self.say(f"step {step}: {values['text']}")

    def close(self) -> None:
        """Ends the display and the files."""
        self._display.close()
        self._file.close()
        if self._events is not None:
            self._events.close()


def _events(folder: pathlib.Path, start: int) -> Any:
    require("log.tensorboard", "train", "tensorboardX")
    from tensorboardX import SummaryWriter

    return SummaryWriter(str(folder / "tensorboard"), purge_step=start + 1)


class _Display:
    """A progress bar in a terminal, else a line every few steps."""

    def __init__(self, steps: int, start: int, every: int) -> None:
        self.steps, self.every = steps, every
        self.loss: float | None = None
        self.bar: Any = None
        if sys.stdout.isatty():
            self.bar = _bar()
        if self.bar is not None:
            self.task = self.bar.add_task("", total=steps, completed=start, loss="", speed="")
            self.bar.start()

    def say(self, text: str) -> None:
        if self.bar is None:
            print(text, flush=True)
        else:
            self.bar.console.print(text, markup=False, highlight=False)

    def step(self, step: int, values: Mapping[str, Any]) -> None:
        loss = values["loss"]
        self.loss = loss if self.loss is None else SMOOTHING * self.loss + (1 - SMOOTHING) * loss
        speed = "compiled"
        if "tokens_per_second" in values:
            speed = f"{values['tokens_per_second']:,.0f} tokens/s"
        if "mfu" in values:
            speed += f"  MFU {100 * values['mfu']:.1f} %"
        if self.bar is not None:
            shown = {"loss": f"loss {self.loss:.3f}", "speed": speed}
            self.bar.update(self.task, completed=step, **shown)
        elif step % self.every == 0 or step == self.steps:
            print(
                f"{time.strftime('%H:%M:%S')}  step {step}/{self.steps}  loss {loss:.4f}  "
                f"gradient norm {values['gradient_norm']:.3f}  {speed}",
                flush=True,
            )

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()


def _bar() -> Any:
    try:
        require("the progress display", "train", "rich.progress")
    except ImportError as error:
        print(f"{error}; lines instead", flush=True)
        return None
    from rich import progress

    return progress.Progress(
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[loss]}"),
        progress.TextColumn("{task.fields[speed]}"),
        progress.TimeRemainingColumn(),
        refresh_per_second=4,
    )
