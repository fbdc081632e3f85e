"""A P4 switch is killed during a run, and another one is started in its place."""

from __future__ import annotations

import pytest
from jobs import reduce
from test_styles import STYLES, tiny
from traffic import TARGETS

from testbed.hosts.launcher import RankFailed

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("root_namespace")]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
def test_a_restarted_switch_never_makes_a_wrong_sum(style, target, tmp_path):
    """ATP recovers. With other protocols, a rank may ask for a lost sum in vain; then the run says
    so."""
    counted = []

    def restart_once(network, launcher):
        if not counted and (found := network.events(0).total()):
            counted.append(found)
            network.kill_switch("t0")
            network.start_switch("t0", network.entries("t0"))

    asked = tiny(tmp_path, **style, target=target, iterations=20)
    survives = style["system"] == "atp"
    timeout = 60 if survives else 8
    try:
        done = reduce(asked, tmp_path, watch=restart_once, timeout=timeout)
    except RankFailed as reported:
        assert not survives and "no answer in time" in str(reported)
    else:
        done.assert_exact()
    assert counted, "the run was over before the switch was restarted"
