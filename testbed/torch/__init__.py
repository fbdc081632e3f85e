"""The backend ``ina`` of torch.distributed: gradients are summed by P4 switches::

    import testbed.torch

    torch.distributed.init_process_group("ina")

Sums of float32 become int32, travel as packets through the hosts' engine and the compiled P4
program, and come back as float32. The switches run in rank 0, so nothing else has to be started,
and root is not needed. ``INA_TESTBED_EXPERIMENT`` may name an experiment file, which sets the
fabric, the system, the window and the quantisation. Raises ImportError without PyTorch (the extra
``train``).
"""

from __future__ import annotations

from testbed.torch.errors import GroupError

try:
    import torch.distributed as _dist
except ImportError as error:
    raise ImportError(
        f"testbed.torch needs PyTorch, which cannot be imported ({error}); install it, for example"
        " with: pip install 'ina-testbed[train]'"
    ) from error

from testbed.torch.group import Group
from testbed.torch.hook import hook

__all__ = ["Group", "GroupError", "hook"]

_dist.Backend.register_backend("ina", Group, devices=["cpu", "cuda"])
