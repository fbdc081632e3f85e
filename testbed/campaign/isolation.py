"""Runs a function in a process of its own, which cleans up however it ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

from testbed.lifetime import die_with_parent

T = TypeVar("T")
_CLEAN_UP_S = 20.0
_SOON_S = 0.01
_BOTH = (signal.SIGTERM, signal.SIGINT)


class Terminated(BaseException):
    """SIGTERM arrived; raised at the current point of the program, so that contexts unwind."""


@contextmanager
def termination_unwinds() -> Iterator[None]:
    """A context in which SIGTERM raises `Terminated` instead of ending the process at once.

    Python drops what a handler raises inside a destructor, or inside a hook that another module has
    registered for forks. It is then raised again a moment later, outside of them.
    """

    def unwind(number: int, frame: object) -> None:
        # A second signal must not interrupt the clean-up after the first one. If it has arrived
        # meanwhile, it needs a handler, or Python prints a traceback.
        for each in before:
            signal.signal(each, _nothing)
        signal.raise_signal(number)  # Python calls the handlers of all that have arrived
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated

    def dropped(what: sys.UnraisableHookArgs) -> None:
        if what.exc_type not in (KeyboardInterrupt, Terminated):
            usual(what)
            return

        def unwind_again(number: int, frame: object) -> None:
            raise what.exc_type

        signal.signal(signal.SIGALRM, unwind_again)
        signal.setitimer(signal.ITIMER_REAL, _SOON_S)

    before = {each: signal.signal(each, unwind) for each in _BOTH}
    alarm, usual = signal.getsignal(signal.SIGALRM), sys.unraisablehook
    sys.unraisablehook = dropped
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = usual
        for each, handler in {**before, signal.SIGALRM: alarm}.items():
            signal.signal(each, handler)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """A context for forks. Python calls handlers inside a fork, but drops what they raise: the
    signal would be lost. The new process calls `may_be_interrupted`."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _BOTH)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def may_be_interrupted() -> None:
    """Take the signals that `uninterrupted` has held back."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _BOTH)


def _nothing(number: int, frame: object) -> None:
    pass


class Failed(Exception):
    """The function raised an exception, or its process died. The message is the reason, ``details``
    the traceback, if any."""

    def __init__(self, reason: str, details: str = "") -> None:
        super().__init__(reason)
        self.details = details


class Call(Generic[T]):
    """``function(*arguments)`` in a forked process. It holds descriptors until its result is taken,
    or it is ended.

    Exceptions of the types ``expected`` are reported by their text only, others with a traceback.
    If this process is killed, the child unwinds before it ends.
    """

    def __init__(
        self, function: Callable[..., T], *arguments: Any, expected: tuple[type[Exception], ...]
    ) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe(duplex=False)
        self._child = context.Process(
            target=_child, args=(os.getpid(), theirs, function, arguments, expected), daemon=False
        )
        try:
            with uninterrupted():
                self._child.start()
        except BaseException:
            if self._child.pid is not None:
                end([self])
            raise
        theirs.close()

    @property
    def pipe(self) -> Connection:
        """The pipe of the result. If it is readable, `result` does not wait."""
        return self._pipe

    def result(self) -> T:
        """Wait for the function's result. Raises Failed if the function raises or its process
        dies."""
        try:
            kind, value, details = self._pipe.recv()
        except (EOFError, OSError):  # it may have died while it sent
            kind = ""
        self._child.join()
        code = self._child.exitcode
        self._pipe.close()
        self._child.close()
        if not kind:
            raise Failed(f"its process died (exit code {code})")
        if kind == "failed":
            raise Failed(value, details)
        found: T = value
        return found

    def _ask_to_end(self) -> None:
        # Ctrl-C in a terminal reaches the child, too; a signal to this process does not.
        if self._child.is_alive() and self._child.pid is not None:
            os.kill(self._child.pid, signal.SIGTERM)

    def _wait_for_end(self, until: float) -> None:
        self._child.join(max(0.0, until - time.monotonic()))
        self._child.kill()  # no effect on one that has ended
        self._child.join()
        self._pipe.close()


def end(calls: Iterable[Call[Any]]) -> None:
    """Make the processes that still run unwind, all at once, and wait for that. One that does not
    is killed; what it has started then dies with it."""
    # If a pipe is closed, its result has been taken.
    left = [each for each in calls if not each.pipe.closed]
    for each in left:
        each._ask_to_end()
    until = time.monotonic() + _CLEAN_UP_S
    for each in left:
        each._wait_for_end(until)


def _child(
    parent: int,
    pipe: Connection,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    expected: tuple[type[Exception], ...],
) -> None:
    die_with_parent(parent, signal.SIGTERM)
    # Before and after the function there is nothing to clean up. There, the parent's handlers would
    # raise, and a traceback would be printed.
    for each in _BOTH:
        signal.signal(each, signal.SIG_DFL)
    may_be_interrupted()
    try:
        with termination_unwinds():
            answer = ("done", function(*arguments), "")
    except (Terminated, KeyboardInterrupt):
        os._exit(130)
    except expected as error:
        answer = ("failed", str(error), "")
    except Exception as error:
        answer = ("failed", f"{type(error).__name__}: {error}", traceback.format_exc())
    try:
        pipe.send(answer)
    except BrokenPipeError:
        os._exit(1)
