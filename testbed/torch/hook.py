"""A communication hook of DistributedDataParallel, for scripts that keep another backend."""

from __future__ import annotations

from typing import Any


def hook(group: Any, bucket: Any) -> Any:
    """The mean gradient of a bucket, through the switches of ``group``, a group of backend ina::

        model.register_comm_hook(torch.distributed.new_group(backend="ina"), testbed.torch.hook)
    """
    return group.mean(bucket.buffer())
