"""Sharded programs, and their execution on devices of XLA's CPU."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import sys
from collections.abc import Callable
from typing import Any

import conftest  # noqa: F401 - where xla_flags is
import jax
import jax.numpy as jnp
import numpy as np
import xla_flags
from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib import xla_client
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxlib.mlir import ir

LLAMA = pathlib.Path(__file__).resolve().parents[2] / "examples" / "llama"
sys.path.insert(0, str(LLAMA))
try:
    import config
    import model
    import optimizer
finally:
    sys.path.remove(str(LLAMA))

__all__ = ["PROGRAMS", "Sharded", "lower", "run_parts", "set_mesh"]

# Before JAX counts its devices, which is later than its import.
xla_flags.add({"xla_force_host_platform_device_count": "8"})

P = PartitionSpec


@dataclasses.dataclass(frozen=True)
class Sharded:
    """A function, its arguments, and the shardings of these and of the results.

    Attributes:
        fn: of arrays or pytrees.
        args: its arguments.
        axes: of the mesh, sizes by names; 8 devices.
        specs: trees like the arguments'.
        out: tree like the results'.
        contains: collectives that the program of a device has.
    """

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    axes: dict[str, int]
    specs: Any
    out: Any
    contains: frozenset[str]

    def mesh(self) -> Mesh:
        return mesh_of(self.axes)

    def shardings(self) -> tuple[Any, Any]:
        """Returns the shardings of arguments and of results."""
        mesh = self.mesh()
        return jax.tree.map(
            lambda spec: NamedSharding(mesh, spec), (self.specs, self.out), is_leaf=is_spec
        )


def mesh_of(axes: dict[str, int]) -> Mesh:
    """Returns a mesh over which Shardy, not JAX, propagates shardings."""
    types = (AxisType.Auto,) * len(axes)
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=types)


def is_spec(value: Any) -> bool:
    return isinstance(value, PartitionSpec)


# `jax.set_mesh` before 0.7.1.
set_mesh = getattr(jax, "set_mesh", None) or jax.sharding.use_mesh


def lower(program: Sharded) -> str:
    """Returns the text of a program as JAX lowers it, with all its arguments."""
    specs, out = program.shardings()
    jitted = jax.jit(program.fn, in_shardings=specs, out_shardings=out, keep_unused=True)
    with set_mesh(program.mesh()):
        return jitted.lower(*program.args).as_text(debug_info=True)


def as_replicas(text: str) -> str:
    """Returns a device's program as XLA runs it on replicas, which it does not partition again."""
    text = text.replace("stablehlo.partition_id", "stablehlo.replica_id")
    text = re.sub(r" *sdy\.mesh .*\n", "", text)
    for attribute in (
        r"channel_handle = #stablehlo\.channel_handle<[^>]*>",
        r"use_global_device_ids",
        r"scalify\.whole_type = tensor<[^>]*>",
        r"sdy\.sharding = #sdy\.sharding<@\w+, \[[^\]]*\]>",
        r"mhlo\.num_(?:partitions|replicas) = \d+ : i32",
    ):
        # One comma goes with it: that before it, if there is one.
        text = re.sub(rf", {attribute}|{attribute}(, )?", "", text)
    return text


def compile_parts(text: str, devices: Any) -> Any:
    """Returns XLA's executable of a device's program on as many devices."""
    count = len(devices)
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = count, 1
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = count, 1
    build.device_assignment = xla_client.DeviceAssignment.create(np.arange(count).reshape(-1, 1))
    context = jax_mlir.make_ir_context()
    with context:
        # As bytecode, which clients of all versions read.
        module = jax_mlir.module_to_bytecode(ir.Module.parse(as_replicas(text)))
        client = devices[0].client
        return client.compile_and_load(module, xla_client.DeviceList(tuple(devices)), options)


def run_parts(program: Sharded, text: str) -> list[list[np.ndarray[Any, Any]]]:
    """Runs a device's program on all devices; returns each result's parts by device."""
    specs, _ = program.shardings()
    devices = jax.devices()
    row = Mesh(np.array(devices), ("device",))

    def stacked(array: Any) -> Any:
        shards = sorted(array.addressable_shards, key=lambda shard: shard.device.id)
        parts = [shard.data for shard in shards]
        if array.ndim == 0:
            return jax.device_put(np.asarray(array), NamedSharding(row, P()))
        shape = (len(parts) * parts[0].shape[0], *parts[0].shape[1:])
        return jax.make_array_from_single_device_arrays(
            shape, NamedSharding(row, P("device")), parts
        )

    args = jax.tree.leaves(jax.device_put(program.args, specs))
    done = compile_parts(text, devices).execute_sharded([stacked(arg) for arg in args])
    results = done.disassemble_into_single_device_arrays()
    return [
        [np.asarray(part) for part in sorted(parts, key=lambda one: one.device.id)]
        for parts in results
    ]


def llama(axes: dict[str, int], spec_of: Callable[[str, Any], Any], state_of: Any) -> Sharded:
    """Returns a step of the example: parameters by `spec_of`, moments by `state_of`."""
    cfg, plan = config.ModelConfig(layers=1, seq=32), config.TrainConfig()
    adamw = optimizer.make_optimizer(plan)
    params = jax.jit(lambda: model.init(jax.random.key(0), cfg))()
    state = jax.jit(adamw.init)(params)
    batch = np.random.default_rng(0).integers(0, cfg.vocab, (8, cfg.seq + 1), dtype=np.int32)

    def specs(tree: Any, of: Any) -> Any:
        return jax.tree_util.tree_map_with_path(
            lambda path, leaf: of(jax.tree_util.keystr(path), leaf), tree
        )

    placed = (specs(params, spec_of), specs(state, state_of))
    step = optimizer.make_step(cfg, adamw)
    collectives = frozenset({"all_reduce"})
    return Sharded(
        step, (params, state, batch), axes, (*placed, P("data")), (*placed, P()), collectives
    )


def whole(name: str, leaf: Any) -> PartitionSpec:
    return P()


def tensor_parallel(name: str, leaf: Any) -> PartitionSpec:
    """Megatron's sharding: columns of first matrices, rows of second ones, the vocabulary."""
    if leaf.ndim == 2 and re.search("wq|wk|wv|w_gate|w_up|head", name):
        return P(None, "tensor")
    if leaf.ndim == 2 and re.search("wo|w_down|embed", name):
        return P("tensor", None)
    return P()


def over_data(name: str, leaf: Any) -> PartitionSpec:
    return P("data") if leaf.ndim else P()


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(1)
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def scanned() -> Sharded:
    """Layers in a loop with sharded weights; activations between them are sharded by sequence."""
    stack, down, x = arrays((3, 8, 16), (3, 16, 8), (4, 6, 8))

    def loss(stack: Any, down: Any, x: Any) -> Any:
        def layer(x: Any, weights: Any) -> Any:
            up, back = weights
            x = jax.lax.with_sharding_constraint(x, P("data", "sequence", None))
            return x + jnp.tanh(x @ up) @ back, None

        return jnp.sum(jax.lax.scan(layer, x, (stack, down))[0] ** 2)

    specs = (P(None, None, "tensor"), P(None, "tensor", None), P("data"))
    return Sharded(
        jax.value_and_grad(loss, argnums=(0, 1)),
        (stack, down, x),
        {"data": 2, "tensor": 2, "sequence": 2},
        specs,
        (P(), specs[:2]),
        frozenset({"all_reduce"}),
    )


def mapped() -> Sharded:
    """A shard_map with collectives of its own."""
    x, w = arrays((16, 8), (8, 12))
    mesh = mesh_of({"data": 4, "tensor": 2})

    def part(x: Any, w: Any) -> Any:
        y = jax.lax.psum_scatter(x @ w, "tensor", scatter_dimension=1, tiled=True)
        return y + jax.lax.axis_index("tensor").astype(y.dtype)

    specs = (P("data", "tensor"), P("tensor", None))
    fn = jax.shard_map(part, mesh=mesh, in_specs=specs, out_specs=P("data", "tensor"))
    return Sharded(
        fn,
        (x, w),
        {"data": 4, "tensor": 2},
        specs,
        P("data", "tensor"),
        frozenset({"reduce_scatter"}),
    )


def moved() -> Sharded:
    """Shards that change their dimension, their device, and their number."""
    x, y = arrays((16, 24), (8, 32))

    def fn(x: Any, y: Any) -> Any:
        constrain = jax.lax.with_sharding_constraint
        turned = constrain(jnp.sin(x), P(None, ("a", "b")))
        swapped = constrain(jnp.cos(y), P("b", "a"))
        places = constrain(jax.lax.iota(jnp.float32, 16), P(("b", "a")))
        return turned, swapped, places * 2

    return Sharded(
        fn,
        (x, y),
        {"a": 4, "b": 2},
        (P(("a", "b")), P("a", "b")),
        (P(None, ("a", "b")), P("b", "a"), P(("b", "a"))),
        frozenset({"all_to_all"}),
    )


def convolved() -> Sharded:
    """A convolution and its gradient with examples on different devices."""
    x, kernel = arrays((8, 6, 6, 3), (3, 3, 3, 4))

    def loss(kernel: Any, x: Any) -> Any:
        dims = ("NHWC", "HWIO", "NHWC")
        y = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=dims)
        return jnp.sum(jax.nn.relu(y) ** 2)

    return Sharded(
        jax.grad(loss), (kernel, x), {"data": 8}, (P(), P("data")), P(), frozenset({"all_reduce"})
    )


def uneven() -> Sharded:
    """Dimensions that devices do not divide, and ops that need all of a dimension."""
    x, y = arrays((8, 12), (16, 6))

    def pool(x: Any) -> Any:
        return jax.lax.reduce_window(x, -np.inf, jax.lax.max, (1, 2), (1, 2), "VALID")

    def fn(x: Any, y: Any) -> Any:
        constrain = jax.lax.with_sharding_constraint
        steps = jnp.sum((x[:, 1:] - x[:, :-1]) ** 2)
        longer = constrain(jnp.concatenate([x, 2 * x[:1]]), P("a"))
        padded = jnp.pad(x, ((1, 2), (0, 0)))
        turned = jnp.roll(x, 3, 0)[::-1] + x[::2].repeat(2, 0)
        best = jnp.argmax(x, 1), jnp.prod(1 + x / 8, 0), jax.lax.top_k(x, 3)[0]
        # Halves of a dimension that has a part for each device, as of heads.
        one, other = jnp.split(y.reshape(2, 8, 6), 2, axis=1)
        joined = jnp.concatenate([-other, one], 1).reshape(16, 6)
        kept = jax.lax.dynamic_update_slice(y, y[:3], (5, 0))
        sums = jnp.cumsum(y, 0)
        pooled = jax.grad(lambda x: jnp.sum(pool(x) ** 2))
        # Windows of one element that see the one before.
        shifted = jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 1), (1, 1), ((1, -1), (0, 0)))
        turned = turned + shifted
        return steps, longer @ longer.T, padded.sum(1), turned, best, joined, kept, sums, pooled(x)

    parts = P(("a", "b"))
    return Sharded(
        fn,
        (x, y),
        {"a": 4, "b": 2},
        (P("a", "b"), parts),
        (P(), P(), P(), P("a"), (P(), P("b"), P()), parts, parts, parts, P("a", "b")),
        frozenset({"all_gather"}),
    )


PROGRAMS: dict[str, Callable[[], Sharded]] = {
    "llama_data": lambda: llama({"data": 8}, whole, whole),
    "llama_tensor": lambda: llama({"data": 4, "tensor": 2}, tensor_parallel, tensor_parallel),
    "llama_moments": lambda: llama({"data": 8}, whole, over_data),
    "scanned": scanned,
    "mapped": mapped,
    "moved": moved,
    "convolved": convolved,
    "uneven": uneven,
}
