"""A function in its own process ends without a traceback, whenever it is told to."""

from __future__ import annotations

import os
import signal

import pytest

from testbed.campaign.isolation import Call, Failed, Terminated, termination_unwinds


class Interrupting:
    """A result during whose way back the signal arrives."""

    def __reduce__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        return int, ()


def interrupted():
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(
    ("function", "code"),
    [(Interrupting, -signal.SIGTERM), (interrupted, 130)],
    ids=["after the function", "in the function"],
)
def test_a_signal_leaves_no_traceback(function, code, capfd):
    with (
        pytest.raises(Failed, match=rf"died \(exit code {int(code)}\)"),
        termination_unwinds(),  # the child begins with these handlers
    ):
        Call(function, expected=()).result()
    assert capfd.readouterr().err == ""


def test_the_parents_handlers_are_its_own():
    with pytest.raises(Terminated), termination_unwinds():
        assert Call(os.getpid, expected=()).result() != os.getpid()
        os.kill(os.getpid(), signal.SIGTERM)
