"""A process of its own for a measurement. It ends with the benchmark."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

from testbed.lifetime import die_with_parent

T = TypeVar("T")


def one_process(start: str = "spawn") -> ProcessPoolExecutor:
    """A pool of one process; ``start`` is a start method of `multiprocessing`."""
    return ProcessPoolExecutor(
        1, get_context(start), initializer=die_with_parent, initargs=(os.getpid(),)
    )


def in_a_process(function: Callable[..., T], *arguments: object, start: str = "spawn") -> T:
    """``function(*arguments)`` in a process of its own."""
    with one_process(start) as process:
        return process.submit(function, *arguments).result()
