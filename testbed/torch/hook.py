"""A communication hook of DistributedDataParallel, for scripts that keep another backend."""

# PyTorch compares the annotations with its classes, so they must not be text.

import torch
import torch.distributed as dist

from testbed.torch.group import Group


def hook(group: Group, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The mean gradient of a bucket, through the switches of ``group``, a group of backend ina::

    model.register_comm_hook(torch.distributed.new_group(backend="ina"), testbed.torch.hook)
    """
    return group.mean(bucket.buffer())
