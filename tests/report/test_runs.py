import pytest
import yaml
from made_up import EXPERIMENT, STYLES, rows, run

from testbed.experiment.load import loads
from testbed.report import runs
from testbed.report.page import build

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


def test_conditions_are_told_if_they_are_not_the_default(tmp_path):
    (job,) = EXPERIMENT["jobs"]
    asked = {
        "schema_version": 1,
        **EXPERIMENT,
        "backend": "packet",
        "fabric": EXPERIMENT["fabric"] | {"packet_cost": "1us"},
        "jobs": [job | {"workers": 2}, job | {"workers": 2, "compute": {"jitter": 0.3}}],
        "emulation": {"loss": {"hosts": 0.01}, "faults": [{"at": "1ms", "link": "t0-s0"}]},
        "sweep": {"emulation.duplication": [0, 0.01]},
    }
    said = (
        "Conditions that are not the default: fault at 1ms link t0-s0; loss hosts 0.01; packet cost"
        " 1us; job 1 compute jitter 0.3; duplication as the sweep says."
    )
    filled = loads(yaml.safe_dump(asked)).data()
    made = run(tmp_path, rows("ps", 1.0), "unusual", filled)
    assert runs.read(made).conditions == said
    build([made], tmp_path / "out", STYLES)
    assert said in (tmp_path / "out" / "report.md").read_text()
    assert said in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize("content", [{}, {"jobs": None, "emulation": {"faults": [None]}}])
def test_conditions_of_a_damaged_experiment(tmp_path, content):
    assert isinstance(runs.read(run(tmp_path, rows("ps", 1.0), "x", content)).conditions, str)


def test_default_conditions_are_not_told(tmp_path):
    usual = loads(yaml.safe_dump({"schema_version": 1, **EXPERIMENT})).data()
    assert runs.read(run(tmp_path, rows("ps", 1.0), "usual", usual)).conditions == ""


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (59.6, "1 min 00 s"), (341, "5 min 41 s"), (44052, "12 h 14 min")],
)
def test_a_duration_is_as_a_person_writes_it(seconds, said):
    assert runs.duration(seconds) == said
