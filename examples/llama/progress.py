"""A progress line for a terminal, and a line every few seconds for a log."""

from __future__ import annotations

import sys
import time

__all__ = ["Progress"]


class Progress:
    """Shows loss, tokens a second and the time left.

    Speed and time left start at the second step, since the first one compiles. Steps that another
    process has `done` before count as made.
    """

    def __init__(self, name: str, steps: int, tokens: int, done: int = 0) -> None:
        self.name = name
        self.steps = steps
        self.before = done
        self.tokens = tokens
        self.live = sys.stdout.isatty()
        self.pause = 0.1 if self.live else 10.0
        self.shown = -self.pause
        self.first = 0.0
        self.loss = 0.0

    def say(self, what: str) -> None:
        """Shows a word instead of the numbers."""
        self._show(f"{self.name:<10} {what} ...")

    def update(self, done: int, loss: float) -> None:
        """Takes one step's loss; shows it if the last line is old enough."""
        now = time.perf_counter()
        mine = done - self.before
        if mine == 1:
            self.first = now
        # A running mean: single batches are noisy.
        self.loss = loss if mine == 1 else 0.9 * self.loss + 0.1 * loss
        if done < self.steps and now - self.shown < self.pause:
            return
        self.shown = now
        each = (now - self.first) / max(mine - 1, 1)
        speed = f"{self.tokens / each:,.0f} tokens/s" if mine > 1 else ""
        left = int(each * (self.steps - done))
        filled = 24 * done // self.steps
        self._show(
            f"{self.name:<10} [{'#' * filled:<24}] {done}/{self.steps}  loss {self.loss:.3f}  "
            f"{speed}  {left // 60}:{left % 60:02d} left"
        )

    def close(self) -> None:
        """Ends the line."""
        if self.live:
            print(flush=True)

    def _show(self, line: str) -> None:
        if self.live:
            print(f"\r{line:<90}", end="", flush=True)
        else:
            print(line, flush=True)
