"""Every protocol with real endpoints, over links that lose, duplicate and reorder packets."""

from __future__ import annotations

import json

import pytest
from hostile_links import HostileTarget, Links
from jobs import reduce
from tiny import experiment, trace_file
from traffic import switches

from testbed.hosts.launcher import RankFailed
from testbed.switches.compile import PROGRAM

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("root_namespace")]

STYLES = {
    "atp": {"system": "atp"},
    "switchml": {"system": "switchml"},
    "switchml to a server": {"system": "switchml", "ina": ["t0"]},
    "rack": {"system": "rina", "options": {"reading": "agent", "groups": "always"}},
    "chain": {"system": "rina", "options": {"reading": "stream", "groups": "always"}},
    "netreduce": {"system": "netreduce", "ina": ["t0", "t1", "s0"]},
}
ONE_RACK, TWO_RACKS = [5, 1], [3, 3]
LINKS = {
    "1 % lost": (Links(lost=0.01), 120, TWO_RACKS),
    "5 % lost": (Links(lost=0.05), 32, TWO_RACKS),
    "doubled and overtaken": (Links(doubled=0.2, delayed=0.2), 64, TWO_RACKS),
    "all of it in one rack": (Links(lost=0.02, doubled=0.1, delayed=0.1), 64, ONE_RACK),
}


class Hostile:
    """Creates switches behind bad links, and keeps them for their counters."""

    def __init__(self, links):
        self._links, self.targets = links, {}

    def __call__(self, target, names, folder, program):
        made = switches(target, names, folder, program)
        self.targets = {name: HostileTarget(each, self._links) for name, each in made.items()}
        return self.targets

    def begin(self, network):
        for each in self.targets.values():
            each.begin()

    def did(self, what):
        return sum(each.disturbed.get(what, 0) for each in self.targets.values())


def tiny(
    folder, system, ina="all", fragments=64, racks=TWO_RACKS, iterations=1, target="native",
    values=256, options=None,
):  # fmt: skip
    trace_file(folder, fragments * values // 256)
    return experiment(
        folder,
        emulation__target=target,
        emulation__dilation={"native": 200, "bmv2": 800}[target],
        jobs__0__system=system,
        jobs__0__options=options or {},
        jobs__0__iterations=iterations,
        jobs__0__warmup=0,
        fabric__ina=ina,
        fabric__values=values,
        fabric__mtu=9000 if values > 256 else 1500,
        fabric__spines=1,
        fabric__hosts_per_leaf=racks,
    )


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
@pytest.mark.parametrize("links", LINKS.values(), ids=LINKS)
def test_sums_are_exact_over_bad_links(style, links, tmp_path):
    of, fragments, racks = links
    sums_are_exact(style, of, fragments, racks, "native", tmp_path)


@pytest.mark.bmv2
@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
@pytest.mark.parametrize("links", ["1 % lost", "5 % lost", "all of it in one rack"])
def test_sums_of_bmv2_are_exact_over_bad_links(style, links, tmp_path):
    of, fragments, racks = LINKS[links]
    sums_are_exact(style, of, fragments, racks, "bmv2", tmp_path)


def sums_are_exact(style, links, fragments, racks, target, folder):
    hostile = Hostile(links)
    asked = tiny(folder, **style, fragments=fragments, racks=racks, target=target)
    done = reduce(asked, folder, hostile.begin, made=hostile)
    done.assert_exact()
    for what in ("lost", "doubled", "delayed"):
        assert hostile.did(what) > 0 or not getattr(links, what)


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
def test_sums_of_small_packets_are_exact(style, tmp_path):
    """Several packets travel as one."""
    reduce(tiny(tmp_path, **style, values=64, iterations=3), tmp_path).assert_exact()


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
def test_sums_of_large_packets_are_exact_over_bad_links(style, tmp_path):
    asked = tiny(tmp_path, **style, values=1024, iterations=3)
    hostile = Hostile(LINKS["all of it in one rack"][0])
    reduce(asked, tmp_path, hostile.begin, made=hostile).assert_exact()
    assert hostile.did("lost") > 0


MEMORY = [each["name"] for each in json.loads(PROGRAM.read_bytes())["register_arrays"]]


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
def test_a_switch_that_loses_its_memory_never_makes_a_wrong_sum(style, tmp_path):
    """ATP recovers. With other protocols, a rank may ask for a lost sum in vain; then the run says
    so."""
    hostile = Hostile(Links(lost=0.005))
    left = [1]

    def forget_once(network, launcher):
        if left:
            left.pop()
            for each in hostile.targets.values():
                each.forget(MEMORY)

    asked = tiny(tmp_path, **style, iterations=12)
    survives = style["system"] == "atp"
    timeout = 60 if survives else 4
    try:
        done = reduce(asked, tmp_path, hostile.begin, forget_once, timeout, made=hostile)
    except RankFailed as reported:
        assert not survives and "no answer in time" in str(reported)
    else:
        done.assert_exact()
    assert not left
