"""A U-Net that predicts the noise of a diffusion (DDPM)."""

import batches
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from program import Program, program


def timestep_embedding(t, dim):
    freqs = jnp.exp(-jnp.log(10000.0) * jnp.arange(dim // 2) / (dim // 2))
    args = t[:, None].astype(jnp.float32) * freqs[None]
    return jnp.concatenate([jnp.sin(args), jnp.cos(args)], -1)


class ResBlock(nn.Module):
    ch: int

    @nn.compact
    def __call__(self, x, temb):
        h = nn.Conv(self.ch, (3, 3))(nn.swish(nn.GroupNorm(8)(x)))
        h = h + nn.Dense(self.ch)(nn.swish(temb))[:, None, None, :]
        h = nn.Conv(self.ch, (3, 3), kernel_init=nn.initializers.zeros)(
            nn.swish(nn.GroupNorm(8)(h))
        )
        if x.shape[-1] != self.ch:
            x = nn.Conv(self.ch, (1, 1))(x)
        return x + h


class AttnBlock(nn.Module):
    @nn.compact
    def __call__(self, x):
        B, H, W, C = x.shape
        h = nn.GroupNorm(8)(x).reshape(B, H * W, C)
        q, k, v = nn.Dense(C)(h), nn.Dense(C)(h), nn.Dense(C)(h)
        w = jax.nn.softmax(jnp.einsum("bic,bjc->bij", q, k) * C**-0.5)
        h = jnp.einsum("bij,bjc->bic", w, v)
        h = nn.Dense(C, kernel_init=nn.initializers.zeros)(h)
        return x + h.reshape(B, H, W, C)


class UNet(nn.Module):
    depth: int
    ch: int = 32

    @nn.compact
    def __call__(self, x, t):
        temb = timestep_embedding(t, self.ch)
        temb = nn.Dense(4 * self.ch)(nn.swish(nn.Dense(4 * self.ch)(temb)))
        h = nn.Conv(self.ch, (3, 3))(x)
        skips = [h]
        for level, mult in enumerate((1, 2)):
            for _ in range(max(self.depth // 2, 1)):
                h = ResBlock(self.ch * mult)(h, temb)
                if level == 1:
                    h = AttnBlock()(h)
                skips.append(h)
            if level == 0:
                h = nn.Conv(self.ch, (3, 3), strides=(2, 2))(h)
                skips.append(h)
        h = ResBlock(2 * self.ch)(h, temb)
        h = AttnBlock()(h)
        h = ResBlock(2 * self.ch)(h, temb)
        for level, mult in reversed(list(enumerate((1, 2)))):
            for _ in range(max(self.depth // 2, 1) + 1):
                h = ResBlock(self.ch * mult)(jnp.concatenate([h, skips.pop()], -1), temb)
                if level == 1:
                    h = AttnBlock()(h)
            if level == 1:
                B, H, W, C = h.shape
                h = jax.image.resize(h, (B, 2 * H, 2 * W, C), "nearest")
                h = nn.Conv(C, (3, 3))(h)
        assert not skips
        h = nn.swish(nn.GroupNorm(8)(h))
        return nn.Conv(3, (3, 3), kernel_init=nn.initializers.zeros)(h)


@program("unet", "unseen", depth=2)
def unet(depth):
    model = UNet(depth)
    nth = batches.keyed(batches.images(8, 8))
    params = model.init(jax.random.key(0), jnp.zeros((8, 8, 8, 3)), jnp.zeros(8, jnp.int32))[
        "params"
    ]
    betas = jnp.linspace(1e-4, 0.02, 1000)
    abar = jnp.cumprod(1 - betas)

    def loss(params, batch):
        (images, _), key = batch
        kt, kn = jax.random.split(key)
        t = jax.random.randint(kt, (images.shape[0],), 0, 1000)
        eps = jax.random.normal(kn, images.shape)
        a = abar[t][:, None, None, None]
        x = jnp.sqrt(a) * images + jnp.sqrt(1 - a) * eps
        return jnp.mean((model.apply({"params": params}, x, t) - eps) ** 2)

    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(2e-4))
    return Program.of_loss(params, nth, loss, tx)
