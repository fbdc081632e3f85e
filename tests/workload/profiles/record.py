"""Records plain.json.gz and ddp.json.gz: two steps of a small model, alone and under DDP (gloo).

    python record.py plain
    python record.py ddp 1 & python record.py ddp 0

Needs PyTorch; the files were made with 2.14.1. Everything that names the machine is left out.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path

import torch
from torch import distributed, nn
from torch.profiler import ProfilerActivity, profile, schedule

FOLDER = Path(__file__).parent
BATCH = 16


def main(kind: str, rank: int = 0) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model: nn.Module = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * 36, 32),
        nn.ReLU(),
        nn.Linear(32, 10),
    )
    if kind == "ddp":
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29555"}
        distributed.init_process_group("gloo", rank=rank, world_size=2)
        model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs, targets = torch.randn(BATCH, 1, 8, 8), torch.randint(0, 10, (BATCH,))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()

    step()
    step()
    with profile(
        activities=[ProfilerActivity.CPU],
        record_shapes=True,
        schedule=schedule(wait=0, warmup=1, active=2),
        on_trace_ready=lambda done: save(done, kind) if rank == 0 else None,
    ) as recorded:
        for _ in range(3):
            step()
            recorded.step()


def save(done: profile, kind: str) -> None:
    path = FOLDER / f"{kind}.json"
    done.export_chrome_trace(str(path))
    content = json.loads(path.read_text())
    path.unlink()
    content = {key: content[key] for key in ("schemaVersion", "record_shapes", "traceEvents")}
    data = json.dumps(content, separators=(",", ":")).encode()
    path.with_suffix(".json.gz").write_bytes(gzip.compress(data, mtime=0))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
