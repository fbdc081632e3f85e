import pytest
from made_up import EXPERIMENT, rows, run

from testbed.report import runs

ENDED = "2026-11-25T05:06:07Z"


@pytest.mark.parametrize(
    "metadata",
    [
        {"finished_at": ENDED},
        {"started_at": ENDED, "finished_at": "2026"},
        {"started_at": ENDED, "finished_at": ENDED, "resumed": [3]},
    ],
)
def test_a_strange_run_json_does_not_say_how_long_the_run_took(metadata):
    assert runs.seconds(metadata) is None


def test_where_a_sweep_puts_ina_is_not_said_of_the_fabric(tmp_path):
    assert "INA at all ToRs, " in runs.read(run(tmp_path, rows("atp", 1.0), "one")).fabric
    for name, swept in {"fabric.ina": ["none", "all"], "fabric": [EXPERIMENT["fabric"]]}.items():
        sweep = {"zip": {"jobs.0.system": ["ps", "atp"]}, "product": {name: swept}}
        made = run(tmp_path, rows("atp", 1.0), name, {**EXPERIMENT, "sweep": sweep})
        assert "INA where the sweep says, " in runs.read(made).fabric


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (59.6, "1 min 00 s"), (341, "5 min 41 s"), (44052, "12 h 14 min")],
)
def test_a_duration_is_as_a_person_writes_it(seconds, said):
    assert runs.duration(seconds) == said
