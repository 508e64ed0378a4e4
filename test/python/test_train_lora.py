"""LoRA: adapters alone are trained, and merged weights act like adapted ones."""

from __future__ import annotations

import pathlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from train_runs import prepare, records

from scalify._tensor_file import map_tensors
from scalify.models import llama
from scalify.train.config import read
from scalify.train.loop import Run
from scalify.train.lora import Adapted, adapt, initial_adapters, merge
from scalify.train.settings import LoraSection


def random_params(stacked: bool) -> dict[str, Any]:
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> jax.Array:
        return jnp.asarray(rng.normal(size=shape), jnp.float32)

    if stacked:
        return {"layers": {"wq": normal(3, 8, 6), "w_up": normal(3, 6, 4)}, "head": normal(4, 5)}
    return {"layers": [{"wq": normal(8, 6), "w_up": normal(6, 4)}], "head": normal(4, 5)}


@pytest.mark.parametrize("stacked", [False, True])
def test_merged_weights_act_like_adapted_ones(stacked: bool) -> None:
    section = LoraSection(rank=2, alpha=6.0, targets=("q_proj",))
    params = random_params(stacked)
    adapters = initial_adapters(params, section, 0)
    assert list(adapters) == ["['layers']['wq']" if stacked else "['layers'][0]['wq']"]
    adapters = jax.tree.map(lambda leaf: leaf + 0.1, adapters)

    def forward(params: Any, x: Any) -> Any:
        if not stacked:
            return x @ params["layers"][0]["wq"]

        def one(_: None, weight: Any) -> Any:
            return None, x @ weight

        return jax.lax.scan(one, None, params["layers"]["wq"])[1]

    x = jnp.ones((5, 8))
    adapted = forward(adapt(params, adapters, section), x)
    merged = merge(params, adapters, section)
    # Sums of eight F32 products in another order.
    np.testing.assert_allclose(adapted, forward(merged, x), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(merged["head"], params["head"])
    a, b = (np.asarray(next(iter(adapters.values()))[name], np.float64) for name in ("a", "b"))
    weight = params["layers"]["wq"] if stacked else params["layers"][0]["wq"]
    found = forward(merged, jnp.eye(8))
    # alpha / rank = 3.
    np.testing.assert_allclose(found, np.asarray(weight) + 3 * a @ b, rtol=1e-5, atol=1e-5)


def test_the_backward_makes_no_gradient_of_a_frozen_weight() -> None:
    shape = (64, 48)
    adapted = Adapted(jnp.ones(shape), jnp.ones((64, 2)), jnp.ones((2, 48)), 1.0)

    def loss(parts: Any, weight: Any, x: Any) -> Any:
        one = Adapted(jax.lax.stop_gradient(weight), parts[0], parts[1], 1.0)
        return jnp.sum((x @ one) ** 2)

    made = jax.make_jaxpr(jax.grad(loss))((adapted.a, adapted.b), adapted.weight, jnp.ones((5, 64)))
    products = [str(eqn.outvars[0].aval.shape) for eqn in made.eqns if "dot" in str(eqn.primitive)]
    assert products and str(shape) not in products and str(shape[::-1]) not in products


def test_a_step_changes_adapters_alone(tmp_path: pathlib.Path) -> None:
    config = prepare(tmp_path)
    sets = ["lora.rank=4", "lora.targets=['q_proj', 'down_proj']", "optimizer.weight_decay=0"]
    sets += [f"export.folder={tmp_path}/model", f"export.fp8={tmp_path}/model-fp8"]
    run = Run(read(config, sets))
    before = jax.tree.map(np.array, (run.trained, run.frozen))
    assert run.train() == 0
    run.close()
    after = jax.tree.map(np.asarray, (run.trained, run.frozen))
    for old, new in zip(*map(jax.tree.leaves, (before[1], after[1])), strict=True):
        np.testing.assert_array_equal(old, new)
    assert len(run.trained) == 2 * 2
    for old, new in zip(*map(jax.tree.leaves, (before[0], after[0])), strict=True):
        assert np.any(old != new)
    folder = tmp_path / "model"
    config_of, loaded = llama.hf.load(folder)
    assert config_of.hidden_size == 32
    for old, new in zip(*map(jax.tree.leaves, (run.params(), loaded)), strict=True):
        np.testing.assert_array_equal(np.asarray(old), np.asarray(new))
    names = map_tensors(tmp_path / "model-fp8" / "model.safetensors")[0].keys()
    assert "model.layers.1.mlp.down_proj.weight_scale" in names
    losses = [one["loss"] for one in records(tmp_path / "run")]
    assert losses[-1] < losses[0] - 0.1


def test_unknown_targets_are_refused() -> None:
    with pytest.raises(ValueError, match=r"lora\.targets has wq: expected some of q_proj"):
        initial_adapters(random_params(False), LoraSection(rank=1, targets=("wq",)), 0)
