"""No verb answers a mutated file with a traceback, or makes its user wait.

``python -m tests.fuzz.mutants 10000`` tries that many; a few are tried here.
"""

from __future__ import annotations

import time

import pytest
from fuzz import mutants
from fuzz.mutants import BASES, OPERATIONS, VALUES, Mutant, complaint
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

QUICK = [base for base in dict.fromkeys(BASES) if not base.startswith("run/")]
EDITS = st.tuples(
    st.sampled_from(sorted(set(OPERATIONS))),
    st.floats(0, 1, allow_nan=False, exclude_max=True),
    st.integers(0, len(VALUES) - 1),
)


@settings(
    max_examples=240, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(base=st.sampled_from(QUICK), edits=st.lists(EDITS, min_size=1, max_size=3))
@example(base="leaf.yaml", edits=[("deep", 0.9, 40)])
@example(base="w.trace", edits=[("cut", 0.5, 0)])
def test_mutated_files(base, edits):
    assert not complaint(Mutant(base, tuple(edits)))


@pytest.mark.alone  # a report takes most of the time allowed, and more beside other tests
@pytest.mark.parametrize(
    "mutant",
    [
        Mutant("run/iterations.csv", (("nothing", 0.0, 0),)),
        Mutant("run/results.csv", (("byte", 0.7605, 10),)),
        Mutant("base.json", (("deep", 0.226, 29),)),
        Mutant("run/run.json", (("deep", 0.5, 40),)),
    ],
    ids=str,
)
def test_results_that_once_failed(mutant):
    assert not complaint(mutant)


def test_a_traceback_and_a_wait_are_complaints(monkeypatch):
    def failing(*call):
        raise ValueError("as a bug would")

    def waiting(*call):
        while True:
            time.process_time()

    sound = Mutant("c.pcap", (("line twice", 0.0, 0),))
    assert not complaint(sound)
    monkeypatch.setattr("testbed.switches.decode.lines", lambda path: failing())
    # `reading` handles only the errors that it names, and decode does not name ValueError.
    assert "as a bug would" in complaint(sound)
    monkeypatch.setattr(mutants, "LONGEST_S", 0.05)
    monkeypatch.setattr("testbed.switches.decode.lines", lambda path: waiting())
    assert "processor time" in complaint(sound)
