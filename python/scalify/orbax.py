"""A step's own state in checkpoints of Orbax: scales, amaxes, and what else the compiler adds.

    handlers = {"tree": ocp.StandardCheckpointHandler(), "step": StepHandler()}
    manager = ocp.CheckpointManager(folder, item_names=("tree", "step"), item_handlers=handlers)
    args = ocp.args.Composite(tree=ocp.args.StandardSave(tree), step=StepSave(step))
    manager.save(index, args=args)

`step` is a `scalify.Jit`. The state does not depend on the arrays of the tree, so Orbax saves and
restores these as it does others.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from scalify import checkpoint
from scalify._extras import require
from scalify._jit import Jit

require("scalify.orbax", "orbax", "orbax.checkpoint")

import orbax.checkpoint as ocp  # noqa: E402
from etils import epath  # noqa: E402

__all__ = ["StepHandler", "StepRestore", "StepSave"]

_FOLDER = "scalify"


class StepHandler(ocp.CheckpointHandler):
    """Saves and restores the state that a step keeps besides its arguments."""

    def save(self, directory: epath.Path, args: StepSave) -> None:
        """Writes the state into an item's folder.

        Raises:
            ValueError: the step has not run, so it keeps nothing.
        """
        if args.step.state() is None:
            raise ValueError("the step keeps no state before its first call: save it after a call")
        checkpoint.save(directory / _FOLDER, {}, 0, jit=args.step)

    def restore(self, directory: epath.Path, args: StepRestore) -> Jit:
        """Makes the step continue from the state in an item's folder; returns the step.

        Raises:
            FileNotFoundError: the folder has no such state.
            ValueError: no step was given.
        """
        if args is None:
            raise ValueError("give the step that continues: args=StepRestore(step)")
        checkpoint.load(directory / _FOLDER, {}, jit=args.step)
        return args.step


@ocp.args.register_with_handler(StepHandler, for_save=True)
@dataclasses.dataclass
class StepSave(ocp.args.CheckpointArgs):
    """The step whose state is saved."""

    step: Any


@ocp.args.register_with_handler(StepHandler, for_restore=True)
@dataclasses.dataclass
class StepRestore(ocp.args.CheckpointArgs):
    """The step that continues from the saved state."""

    step: Any
