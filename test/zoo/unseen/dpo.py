"""DPO: a policy and a frozen reference over pairs; log-sigmoid of the difference of log-ratios."""

import batches
import jax
import jax.numpy as jnp
import lora as base_model
import numpy as np
import optax
from program import Program, program


def logp(params, tokens, mask):
    empty = [{} for _ in params["layers"]]
    logits = base_model.apply(empty, params, tokens[:, :-1])
    lp = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], -1)[..., 0]
    return jnp.sum(lp * mask[:, 1:], -1)


@program("dpo", "unseen", depth=4)
def dpo(depth):
    params = base_model.init(jax.random.key(14), depth)["base"]
    ref = jax.tree.map(jnp.copy, params)
    text = batches.text(8, 32)

    def nth(i):
        chosen = text(i)
        rng = np.random.default_rng(i)
        rejected = chosen.copy()
        rejected[:, 16:] = rng.permuted(rejected[:, 16:], axis=1)
        mask = np.broadcast_to(np.arange(33) >= 16, chosen.shape).astype(np.float32)
        return chosen, rejected, mask, ref

    def loss(params, batch, beta=0.1):
        chosen, rejected, mask, ref = batch
        both, m = jnp.concatenate([chosen, rejected]), jnp.concatenate([mask, mask])
        pc, pr = jnp.split(logp(params, both, m), 2)
        rc, rr = jnp.split(jax.lax.stop_gradient(logp(ref, both, m)), 2)
        return -jnp.mean(jax.nn.log_sigmoid(beta * ((pc - rc) - (pr - rr))))

    return Program.of_loss(
        params, nth, loss, optax.chain(optax.clip_by_global_norm(1.0), optax.rmsprop(1e-4))
    )
