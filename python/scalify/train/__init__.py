"""Training of language models from a file: `python -m scalify.train config.toml`.

The parts: `settings` and `config` read the file, `tokens`, `order`, `data` and `prefetch` make
batches, `optimizer` and `step` make the compiled step, `loop` runs it, `log` and `page` write
about it.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command `scalify train`; returns its exit status."""
    from scalify.train.command import main as run  # JAX loads when a run begins

    return run(argv)
