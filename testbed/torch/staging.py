"""Tensors of other devices, such as GPUs: their values are summed and sent in host memory.

A copy to the host waits for everything that the device's current stream has been given, and a copy
back is complete when it returns. So no stream of the device can see a tensor before its sum, and
none has to be known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from testbed.torch.errors import GroupError


def on_host(what: str, tensor: Any) -> Any:
    """The tensor itself if the CPU has it, otherwise a copy of its values.

    ``what`` is the collective, for the message. Raises GroupError if the values cannot be copied.
    """
    return tensor.detach() if tensor.device.type == "cpu" else copied(what, tensor)


def copied(what: str, tensor: Any) -> Any:
    """A copy in host memory, in memory that a GPU can copy fast if it has the tensor. Raises
    GroupError if the values cannot be copied."""
    try:
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
        return host.copy_(tensor.detach())
    except RuntimeError as error:  # NotImplementedError, too
        said = " ".join(str(error).split("\n", 1)[0].split())
        raise GroupError(
            f"{what}: found a tensor on {tensor.device}, whose values cannot be copied to the host"
            f" ({said}); wanted one on cpu, or on a device with values, such as cuda"
        ) from error


def put_back(tensor: Any, host: Any) -> None:
    """Give ``tensor`` the values of ``host``, which is what `on_host` has returned for it."""
    if tensor.device.type != "cpu":
        tensor.detach().copy_(host)


def nested(what: str, found: Any) -> Any:
    """An argument of a collective with all its tensors `on_host`."""
    if isinstance(found, torch.Tensor):
        return on_host(what, found)
    if isinstance(found, list | tuple):
        return [nested(what, each) for each in found]
    return found


def flat(found: Any) -> list[Any]:
    """The tensors in an argument of a collective."""
    if isinstance(found, torch.Tensor):
        return [found]
    return [tensor for each in found for tensor in flat(each)] if isinstance(found, list) else []


def future(tensors: Sequence[Any]) -> Any:
    """A future whose value may be or contain ``tensors``. The streams of their devices wait for
    it, as those of PyTorch's own collectives do."""
    devices = {each.device for each in tensors if each.device.type != "cpu"}
    return torch.futures.Future(devices=sorted(devices, key=str))
