"""Processes that do not outlive their parent."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent: int, with_signal: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send this process ``with_signal`` when process ``parent`` ends.

    A child must call this first; it ends at once if ``parent`` is already gone.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, int(with_signal))
    if os.getppid() != parent:
        os._exit(1)
