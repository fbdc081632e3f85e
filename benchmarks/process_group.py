"""All-reduce of one bucket by the backend ina and by gloo, in turns, among ranks on this machine.

The ranks are forked and meet in a file. Wall-clock times are medians of rank 0. Processor times are
sums of all ranks' medians, and include the switches, which run in rank 0. The two take turns, so
that a busy machine slows both. It slows ina more, whose ranks and switch wait for one another more
often: give the benchmark the processors.

    python -m benchmarks.process_group
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import testbed.torch
from testbed.lifetime import die_with_parent

BACKENDS = ("ina", "gloo")


def measure(arguments: argparse.Namespace, file: Path, rank: int) -> None:
    dist.init_process_group(
        "ina", init_method=f"file://{file}", rank=rank, world_size=arguments.ranks
    )
    groups: dict[str, Any] = {"ina": None, "gloo": dist.new_group(backend="gloo")}
    drawn = torch.randn(round(arguments.megabytes * 1e6) // 4)
    values = torch.empty_like(drawn)
    wall: dict[str, list[float]] = {name: [] for name in BACKENDS}
    processor: dict[str, list[float]] = {name: [] for name in BACKENDS}
    for turn in range(arguments.rounds + arguments.warmup):
        for name in BACKENDS:
            values.copy_(drawn)
            dist.barrier(groups["gloo"])
            begin, spent = time.perf_counter(), time.process_time()
            dist.all_reduce(values, group=groups[name])
            if turn >= arguments.warmup:
                wall[name].append(time.perf_counter() - begin)
            dist.barrier(groups["gloo"])
            if turn >= arguments.warmup:
                processor[name].append(time.process_time() - spent)
    total = torch.tensor([statistics.median(processor[name]) for name in BACKENDS])
    dist.all_reduce(total, group=groups["gloo"])
    if rank == 0:
        print("backend  wall ms  least  processor ms")
        for name, spent in zip(BACKENDS, total.tolist(), strict=True):
            middle, least = statistics.median(wall[name]), min(wall[name])
            print(f"{name:7} {middle * 1e3:8.1f} {least * 1e3:6.1f} {spent * 1e3:13.1f}")
        ours, theirs = (wall[name] for name in BACKENDS)
        turns = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        print(
            f"ina / gloo: wall {statistics.median(ours) / statistics.median(theirs):.2f}"
            f" (of least {min(ours) / min(theirs):.2f}, of turns {turns:.2f}),"
            f" processor {(total[0] / total[1]).item():.2f}"
        )
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--megabytes", type=float, default=25.0)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, {testbed.torch.__name__}, {arguments.ranks} ranks")
    sys.stdout.flush()
    with tempfile.TemporaryDirectory() as folder:
        parent, children = os.getpid(), []
        for rank in range(arguments.ranks):
            child = os.fork()
            if child == 0:
                die_with_parent(parent)
                try:
                    measure(arguments, Path(folder) / "meeting", rank)
                    sys.stdout.flush()
                    os._exit(0)
                except BaseException:
                    sys.excepthook(*sys.exc_info())
                    os._exit(1)
            children.append(child)
        failed = [rank for rank, child in enumerate(children) if os.waitpid(child, 0)[1]]
    if failed:
        raise SystemExit(f"ranks that failed: {failed}")


if __name__ == "__main__":
    main()
