"""Times exchanges of CPU ranks by their bytes: latency and rate, and the bucket size that follows.

Ranks are threads of one process with one compute thread each, which exchange through shared memory.
A step of one all-gather is timed for each size. Sizes alternate, in an order that differs between
rounds. Latency and rate are a fit of seconds = latency + bytes / rate to the medians, by least
relative squares.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, NamedSharding
from jax.sharding import PartitionSpec as P

from scalify import _runtime
from scalify._executable import Executable, build
from scalify.partition import partition

__all__ = ["main"]

# Bytes per rank.
SIZES = [2**power for power in range(12, 26)]


def compile_gather(ranks: int, given: int) -> bytes:
    """Returns the artefact of an all-gather of `given` bytes of F32 from each rank."""
    mesh = AbstractMesh((ranks,), ("data",))
    shard, whole = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
    step = jax.jit(lambda x: x + 1, in_shardings=shard, out_shardings=whole)
    traced = step.trace(jax.ShapeDtypeStruct((ranks * given // 4,), jnp.float32))
    text = traced.lower(lowering_platforms=("cpu",)).as_text(debug_info=True)
    return build(partition(text).text, {"bucketBytes": 0})[0]


def measure(ranks: int, rounds: int) -> dict[int, float]:
    """Returns the median seconds of an exchange by the bytes per rank."""
    artefacts = {given: compile_gather(ranks, given) for given in SIZES}
    times: dict[int, list[float]] = {given: [] for given in SIZES}
    job = f"messages-{os.getpid()}"

    def work(rank: int) -> None:
        comm = _runtime.Communicator("local", 120, rank, ranks, job)
        steps = {given: Executable(artefacts[given], 1, comm=comm) for given in SIZES}
        data = {given: np.zeros(given // 4, np.float32) for given in SIZES}
        for index in range(rounds + 1):
            for given in random.Random(index).sample(SIZES, len(SIZES)):
                comm.barrier()
                started = time.perf_counter()
                steps[given](data[given])
                if rank == 0 and index > 0:
                    times[given].append(time.perf_counter() - started)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {given: statistics.median(found) for given, found in times.items()}


def fit(times: dict[int, float]) -> tuple[float, float]:
    """Returns latency in seconds and bytes/s, with equal weight of all sizes' relative errors."""
    given, seconds = np.array(list(times)), np.array(list(times.values()))
    columns = np.stack([1 / seconds, given / seconds], axis=1)
    (latency, each), *_ = np.linalg.lstsq(columns, np.ones(len(given)), rcond=None)
    return float(latency), float(1 / each)


def main() -> int:
    """Prints the table; returns the command's exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    for ranks in options.ranks:
        times = measure(ranks, options.rounds)
        latency, rate = fit(times)
        print(f"{ranks} ranks, {os.cpu_count()} cores: bytes given, median us")
        for given, seconds in times.items():
            print(f"  {given:>9,}  {seconds * 1e6:10.1f}")
        share = 9 * latency * rate
        print(f"  latency {latency * 1e6:.1f} us, rate {rate / 1e9:.2f} GB/s;", end=" ")
        print(f"nine tenths of the rate from {share / 2**20:.2f} MiB on", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
