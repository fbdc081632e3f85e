"""A P4 switch is killed during a run, and another one is started in its place."""

from __future__ import annotations

import os
import signal

import pytest
from jobs import reduce
from test_styles import STYLES, tiny
from traffic import TARGETS, switches

from testbed.hosts.launcher import RankFailed
from testbed.switches import events

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("root_namespace")]


class Restartable:
    """``target``, with a record of its configuration."""

    def __init__(self, target):
        self._target, self._told = target, []

    def __getattr__(self, name):
        method = getattr(self._target, name)
        if name not in ("start", "insert", "multicast_group", "write_register"):
            return method

        def noted(*arguments):
            self._told.append((name, arguments))
            return method(*arguments)

        return noted

    def restart(self):
        os.kill(self._target.pid, signal.SIGKILL)
        self._target.close()
        for name, arguments in self._told:
            getattr(self._target, name)(*arguments)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
def test_a_restarted_switch_never_makes_a_wrong_sum(style, target, tmp_path):
    """ATP recovers. With other protocols a rank may ask for a lost sum in vain; the run says so."""
    made, counted = {}, []

    def restartable(target, names, folder, program):
        made.update(
            (name, Restartable(each))
            for name, each in switches(target, names, folder, program).items()
        )
        return made

    def restart_once(network, launcher):
        if not counted and (found := events.read(made["t0"], 0).total()):
            counted.append(found)
            made["t0"].restart()

    asked = tiny(tmp_path, **style, target=target, iterations=20)
    survives = style["system"] == "atp"
    timeout = 60 if survives else 8
    try:
        done = reduce(asked, tmp_path, watch=restart_once, timeout=timeout, made=restartable)
    except RankFailed as reported:
        assert not survives and "no answer in time" in str(reported)
    else:
        done.assert_exact()
    assert counted, "the run was over before the switch was restarted"
