"""A function in its own process ends without a traceback, whenever it is told to end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest
from patience import PATIENCE_S

from testbed.campaign import isolation
from testbed.campaign.isolation import Call, Failed, Terminated, termination_unwinds


class Interrupting:
    """A result; the signal arrives while it is sent back."""

    def __reduce__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        return int, ()


def interrupted():
    os.kill(os.getpid(), signal.SIGTERM)


def interrupted_by_both():
    """As Ctrl-C in a terminal, which reaches this process and its parent, while C code runs."""
    sys.unraisablehook = sys.__unraisablehook__  # pytest would take what Python prints
    both = (signal.SIGINT, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_BLOCK, both)
    for each in both:
        os.kill(os.getpid(), each)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, both)


class Interrupted:
    """Its end is a place from which Python lets nothing be raised."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)


def interrupted_in_a_destructor():
    Interrupted()
    time.sleep(PATIENCE_S)


def interrupted_in_two_destructors():
    Interrupted()
    end = time.monotonic() + 0.1
    while time.monotonic() < end:
        Lingering()
    time.sleep(PATIENCE_S)


class Lingering:
    """Nearly all of its time passes in its destructor."""

    def __del__(self):
        time.sleep(0.005)


@pytest.mark.parametrize(
    ("function", "code"),
    [
        (Interrupting, -signal.SIGTERM),
        (interrupted, 130),
        (interrupted_by_both, 130),
        (interrupted_in_a_destructor, 130),
        (interrupted_in_two_destructors, 130),
    ],
    ids=[
        "after the function",
        "in the function",
        "by both",
        "in a destructor",
        "and again in another one",
    ],
)
def test_a_signal_leaves_no_traceback(function, code, capfd):
    with (
        pytest.raises(Failed, match=rf"died \(exit code {int(code)}\)"),
        termination_unwinds(),  # the child begins with these handlers
    ):
        Call(function, expected=()).result()
    assert capfd.readouterr().err == ""


FORKED = """
import os, signal, time
from testbed.campaign.isolation import Call, termination_unwinds

os.register_at_fork(before=lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    with termination_unwinds():
        Call(time.sleep, 5, expected=()).result()
        print("the signal was lost")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_signal_during_a_fork_is_not_lost():
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("interrupted\n", "")


def test_the_parents_handlers_are_its_own():
    with pytest.raises(Terminated), termination_unwinds():
        assert Call(os.getpid, expected=()).result() != os.getpid()
        os.kill(os.getpid(), signal.SIGTERM)


def test_a_process_that_dies_while_it_sends_its_result_has_failed():
    call = Call(lambda: b"x" * 50_000_000, expected=())
    assert call.pipe.poll(PATIENCE_S)
    os.kill(call._child.pid, signal.SIGKILL)
    with pytest.raises(Failed, match="died"):
        call.result()


def test_what_does_not_unwind_is_killed(monkeypatch):
    def stays():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        ready.set()
        time.sleep(2 * PATIENCE_S)

    monkeypatch.setattr(isolation, "_CLEAN_UP_S", 0.1)
    ready = multiprocessing.get_context("fork").Event()
    call = Call(stays, expected=())
    assert ready.wait(PATIENCE_S)
    isolation.end([call])
    assert call._child.exitcode == -signal.SIGKILL


def test_all_unwind_at_once():
    """Each one waits in its clean-up until the other is there, too."""
    context = multiprocessing.get_context("fork")
    # Not a barrier: a process interrupted in it would break it for one that has not left it yet.
    ready, together = context.Semaphore(0), context.Barrier(2)

    def unwinds():
        try:
            ready.release()
            time.sleep(2 * PATIENCE_S)
        finally:
            together.wait(PATIENCE_S)

    calls = [Call(unwinds, expected=()) for _ in range(2)]
    assert all(ready.acquire(timeout=PATIENCE_S) for _ in calls)
    isolation.end(calls)
    assert [each._child.exitcode for each in calls] == [130, 130]
