"""A run: from its configuration to its last checkpoint, resumed where an earlier one ended."""

from __future__ import annotations

import math
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import optax

from scalify import checkpoint
from scalify.models import llama
from scalify.train import model as models
from scalify.train.config import differences, to_json
from scalify.train.data import Blend, Documents, Pick
from scalify.train.export import copy_beside, export_fp8, tokenizer_of
from scalify.train.layout import Layout
from scalify.train.log import Log, cast_health, memory_of_process
from scalify.train.lora import adapt, initial_adapters, merge
from scalify.train.optimizer import make_optimizer, make_schedule
from scalify.train.page import write_page
from scalify.train.prefetch import Prefetch
from scalify.train.sample import Sampler
from scalify.train.settings import Config, Source
from scalify.train.step import decaying, make_step, numerics_of, recipe_of
from scalify.train.stop import Stop

__all__ = ["Run"]


class Run:
    """One run.

    Attributes:
        trained: the weights that change: all, or those of adapters.
        moments: of the optimizer.
        frozen: weights that do not change, {} if all do.
        position: in the data.
        done: steps so far.
    """

    def __init__(self, config: Config) -> None:
        """Opens the data, makes or loads the weights, and continues from the newest checkpoint.

        Raises:
            OSError: a file cannot be read.
            ValueError: parts of the configuration do not fit together.
        """
        self.config = config
        self.layout = Layout.of(config.train)
        self.data = self._blend(config.data.train)
        self.validation = self._blend(config.data.validation) if config.data.validation else None
        vocabulary = max(one.vocabulary for one in (self.data, self.validation) if one is not None)
        self.model = models.model_config(config.model, vocabulary)
        models.check_length(self.model, config.data.sequence)
        weights = self.initial()
        self.flops = llama.flops_per_token(self.model, config.data.sequence)
        self.trained: Any = weights
        self.frozen: Any = {}
        if config.lora.rank:
            # Frozen weights have no gradients: a third of their FLOPs is left out.
            self.flops -= llama.flops_per_token(self.model, 0) / 3
            self.trained = initial_adapters(weights, config.lora, config.train.seed)
            self.frozen = weights
        self.tokenizer = tokenizer_of(config)
        self.position = self.data.start()
        self.batches = Prefetch(self.data, config.train.batch, self._batch)
        self.done = 0
        self._is_warm = False
        # Casts that the step leaves wide since the policy "widen" has found them.
        self._wide = 0
        self._compile()
        folder = pathlib.Path(config.log.folder)
        self.checkpoints = pathlib.Path(config.checkpoint.folder or folder / "checkpoints")
        self._resume()
        self.sampler = self._sampler()
        self.log = Log(config, self.done) if self.layout.is_first else None
        self._remember(folder)

    def _blend(self, sources: Sequence[Source]) -> Blend:
        data = self.config.data
        return Blend(sources, data.packing, data.sequence, self.config.train.seed)

    def initial(self) -> Any:
        """Returns the weights that training starts from; a peer's model overrides it and `loss`."""
        return models.initial(self.config.model, self.model, self.config.train.seed)

    def loss(self, params: Any, batch: Any) -> jax.Array:
        """Returns the mean loss over a batch's targets."""
        return llama.loss(params, batch, self.model)

    def optimizer(self) -> optax.GradientTransformation:
        """Returns the optimizer of the trained weights, by `schedule`."""
        return make_optimizer(self.config.optimizer, self.schedule, decaying(self.trained))

    def _batch(self, picks: Sequence[Pick]) -> Mapping[str, Any]:
        return self.layout.batch(self.data, picks, self.config.train.micro_batches)

    def _compile(self) -> None:
        """Makes the optimizer and the steps, which compile at their first call."""
        config, train = self.config, self.config.train
        self.schedule = make_schedule(config.optimizer.learning_rate, train.steps, config.schedule)
        optimizer = self.optimizer()
        self.moments = optimizer.init(self.trained)

        def loss(trained: Any, frozen: Any, batch: Any) -> jax.Array:
            return self.loss(self._params(trained, frozen), batch)

        state = (self.trained, self.moments, self.frozen)
        specs = self.layout.specs(self.model, optimizer, *state)
        self.recipe = recipe_of(config.recipe)
        self.step = self.layout.train(
            make_step(loss, optimizer, train.micro_batches),
            self.recipe,
            numerics_of(config.recipe),
            specs,
        )
        self.evaluate_step = self.layout.evaluate(loss, config.evaluation.recipe, specs)

    def _resume(self) -> None:
        """Continues from the newest checkpoint, if there is one.

        Raises:
            ValueError: the data, the model or the optimizer are not those of the checkpoint.
        """
        if checkpoint.latest(self.checkpoints, jit=self.step) is None:
            return
        order = {"order": jax.ShapeDtypeStruct((None,), np.int64)}
        mesh = self.layout.mesh
        before = checkpoint.load(self.checkpoints, order, mesh=mesh, partial=True).tree["order"]
        try:
            self.data.check_order(before)
        except ValueError as error:
            raise ValueError(
                f"{error} when '{self.checkpoints}' was written, so that samples would repeat or "
                "be left out: restore it, or start a new run from the exported weights"
            ) from error
        try:
            self.done, tree = checkpoint.load(self.checkpoints, self._tree(), jit=self.step)
        except ValueError as error:
            raise ValueError(
                f"the weights of '{self.checkpoints}' are of another model, adapter or optimizer "
                f"({error}): restore the configuration, or start a new run in another folder"
            ) from error
        state = self.step.state()
        self._wide = 0 if state is None else len(state.wide)
        self.trained, self.moments, self.position = (
            tree[name] for name in ("trained", "moments", "position")
        )

    def _sampler(self) -> Sampler | None:
        section = self.config.sample
        if not section.every:
            return None
        if self.tokenizer is None:
            raise ValueError("sample.every needs data.tokenizer: name a tokenizer.json")
        end = self.data.sources[0].file.end
        return Sampler(section, self.tokenizer, self.model, end)

    def _params(self, trained: Any, frozen: Any) -> Any:
        """Returns the parameters of the model, whose projections may be adapted."""
        lora = self.config.lora
        return adapt(frozen, trained, lora) if lora.rank else trained

    def _tree(self) -> dict[str, Any]:
        return {
            "trained": self.trained,
            "moments": self.moments,
            "position": self.position,
            "order": self.data.order,
        }

    def save(self) -> pathlib.Path:
        """Writes a checkpoint of the steps so far; collective over the ranks."""
        keep = self.config.checkpoint.keep
        return checkpoint.save(self.checkpoints, self._tree(), self.done, jit=self.step, keep=keep)

    def _remember(self, folder: pathlib.Path) -> None:
        """Writes the configuration beside the log, and says what differs from an earlier one."""
        if self.log is None:
            return
        path = folder / "config.json"
        if self.done:
            self.log.say(f"resumed after step {self.done} from '{self.checkpoints}'")
            for line in differences(path.read_text(), self.config) if path.exists() else ():
                self.log.say(f"the configuration has changed: {line}")
        for source in self.data.sources:
            if isinstance(source, Documents) and source.cut:
                self.log.say(
                    f"'{source.file.path}': {source.cut:,} of {len(source.lengths):,} documents "
                    "are longer than data.sequence, and cut"
                )
        path.write_text(to_json(self.config) + "\n", encoding="utf-8")
        what = self.recipe.name
        self.log.say(
            f"{models.count(self.trained) / 1e6:.2f} M trained parameters, "
            f"{models.count(self.frozen) / 1e6:.2f} M frozen; recipe {what}; "
            f"steps of {self.config.train.batch} x {self.config.data.sequence} tokens"
        )

    def train(self) -> int:
        """Trains to the last step, or to a signal; returns the signal, 0 without one."""
        with Stop(self.layout.mesh) as stop:
            while self.done < self.config.train.steps:
                self._one_step()
                self._widen()
                signal = stop.wanted()
                is_last = self.done == self.config.train.steps
                if not signal:
                    self._look(is_last)
                if is_last or signal or self.done % self.config.checkpoint.every == 0:
                    self.save()
                if signal:
                    return signal
        self.export()
        return 0

    def export(self) -> None:
        """Writes the weights for other programs; collective over the ranks."""
        section = self.config.export
        if section.folder is None:
            return
        params = self.params()
        if self.log is None:
            return
        folder = pathlib.Path(section.folder)
        llama.hf.save(folder, self.model, params, dtype=section.dtype or None)
        copy_beside(self.config, self.tokenizer, folder)
        self.log.say(f"weights in Hugging Face's layout: {folder}")
        if section.fp8 is not None:
            _, size = export_fp8(folder, pathlib.Path(section.fp8), replace=True)
            self.log.say(f"weights in FP8, {size:,} bytes: {section.fp8}")

    def _one_step(self) -> None:
        train = self.config.train
        started = time.perf_counter()
        batch, self.position = self.batches.take(self.position, self.done + 1 < train.steps)
        self.trained, self.moments, metrics = self.step(
            self.trained, self.moments, self.frozen, batch
        )
        loss = float(np.asarray(metrics["loss"]))
        seconds = time.perf_counter() - started
        self.done += 1
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"the loss of step {self.done} is {loss}: continue from '{self.checkpoints}' with "
                "a lower learning rate, or with another recipe"
            )
        if self.log is None:
            return
        tokens = train.batch * self.config.data.sequence
        values: dict[str, Any] = {
            "loss": loss,
            "gradient_norm": float(np.asarray(metrics["gradient_norm"])),
            "learning_rate": float(self.schedule(self.done - 1)),
            "samples": int(self.position[:, 0].sum()),
            "seconds": seconds,
            "memory": memory_of_process(),
        }
        # The first step of a process compiles: its time says nothing of the speed.
        is_warm, self._is_warm = self._is_warm, True
        if is_warm:
            values["tokens_per_second"] = tokens / seconds
        peak = self.config.log.peak_flops
        if is_warm and peak is not None:
            ranks = 1 if self.layout.mesh is None else self.layout.mesh.size
            values["mfu"] = self.flops * tokens / seconds / (peak * ranks)
        if self.done % self.config.log.health_every == 0:
            values |= cast_health(self.step.health())
        self.log.record("step", self.done, **values)

    def _widen(self) -> None:
        """Lets the next step leave the casts wide that the policy "widen" has found.

        All ranks find the same ones.
        """
        found = self.step.widened()[self._wide :]
        if not found:
            return
        self._wide += len(found)
        self.step.recompile()
        if self.log is not None:
            for one in found:
                self.log.record("wide", self.done, cast=one.cast, reason=one.reason)

    def _look(self, is_last: bool) -> None:
        """Evaluates and writes a sample where they are due."""
        evaluation = self.config.evaluation
        if evaluation.every and (is_last or self.done % evaluation.every == 0):
            found = self.evaluate()
            if self.log is not None:
                self.log.record("evaluation", self.done, loss=found)
        sample = self.config.sample
        if self.sampler is not None and (is_last or self.done % sample.every == 0):
            params = self.params()
            if self.log is not None:
                self.log.record("sample", self.done, text=self.sampler.text(params))

    def params(self) -> Any:
        """Returns the whole model's parameters, with adapters merged; collective over the ranks."""
        trained, lora = self.layout.whole(self.trained), self.config.lora
        return merge(self.frozen, trained, lora) if lora.rank else trained

    def evaluate(self) -> float:
        """Returns the mean loss over the targets of the evaluation; collective over the ranks."""
        assert self.validation is not None
        trained = self.layout.whole(self.trained)
        position = self.validation.start()
        found = []
        for _ in range(self.config.evaluation.batches):
            picks, position = self.validation.take(position, self.config.train.batch)
            batch = self.layout.batch(self.validation, picks, 1)
            results = self.evaluate_step(trained, self.frozen, batch)
            found.append([float(np.asarray(result)) for result in results])
        losses, targets = np.array(found).T
        return float(np.average(losses, weights=targets))

    def close(self) -> None:
        """Ends reading and the log, and writes the run's page."""
        self.batches.close()
        if self.log is None:
            return
        self.log.close()
        if self.config.log.page and self.done:
            folder = pathlib.Path(self.config.log.folder)
            try:
                write_page([folder], folder / "report.html")
            except (ImportError, OSError) as error:
                print(f"report.html was not written: {error}", flush=True)
