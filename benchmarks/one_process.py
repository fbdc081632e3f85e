"""A process of its own for a measurement. It ends with the benchmark."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from testbed.lifetime import die_with_parent


def one_process(start: str = "spawn") -> ProcessPoolExecutor:
    """A pool of one process; ``start`` is a start method of `multiprocessing`."""
    return ProcessPoolExecutor(
        1, get_context(start), initializer=die_with_parent, initargs=(os.getpid(),)
    )
