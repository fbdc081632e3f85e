"""Devices of PyTorch's, by the names that PyTorch gives them: cpu, cuda, cuda:1 and so on."""

from __future__ import annotations

from testbed.training.errors import TrainingError

CPU = "cpu"


def check(device: str) -> None:
    """Raise TrainingError if PyTorch cannot use ``device`` here.

    A process that has used a GPU must not fork others that use it.
    """
    import torch

    try:
        torch.empty(1, device=device).cpu()
    except (AssertionError, RuntimeError) as error:  # PyTorch without CUDA asserts it
        said = " ".join(str(error).split("\n", 1)[0].split())
        raise TrainingError(
            f"found {device or 'no name'}, wanted one that PyTorch can use here, such as cpu"
            f" ({said})"
        ) from error


def described(device: str) -> str:
    """The device and, of a GPU, its model: ``cuda, NVIDIA H100``."""
    import torch

    is_cuda = device.startswith("cuda")
    return f"{device}, {torch.cuda.get_device_name(device)}" if is_cuda else device
