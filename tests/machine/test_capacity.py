"""A machine's capacity, and what follows from it: warnings, refusals, a sufficient dilation."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
from tiny import experiment
from verbs import invoke

from testbed.campaign.evaluation import New
from testbed.campaign.planning import refuse
from testbed.deployment.deploy import deploy
from testbed.deployment.errors import DeploymentError
from testbed.experiment.load import dump, loads
from testbed.machine import calibration, capacity
from testbed.machine.calibration import DEFAULTS, Calibration, Costs
from testbed.machine.capacity import BEYOND, COMFORT, Demand, Load
from testbed.placement.deployments import Deployments
from testbed.placement.fabric import build_fabric

COSTS = {"tcp": Costs(8.0, 8.0), "native": Costs(16.0, 16.0, 4.0)}
MEASURED = Calibration(
    COSTS, 0.01, 0.15, measured_at="2026-01-01T00:00:00Z", machine=calibration.machine()
)
LONG = "synthetic/1GB/100ms"


def busy(tmp_path, **changes):
    """An experiment that keeps links busy for a long time."""
    return experiment(tmp_path, jobs__0__workload=LONG, emulation__scale=1, **changes)


def demand_of(wanted, known=MEASURED) -> Demand:
    fabric = build_fabric(wanted)
    return capacity.demand(deploy(wanted, fabric), known)


def a_load(**changes) -> Load:
    return Load(
        **{
            "costs": Costs(link=10.0, rank=5.0, switch=2.0),
            "total": 1e9,
            "host": 1e8,
            "switch": 2e8,
            "iteration_bytes": 1e12,
            "iteration_s": 1000.0,
        }
        | changes
    )


def test_a_long_transfer_needs_what_its_bytes_cost():
    # 1e9 bytes/s at 10 ns need ten cores, and a tenth of that at dilation 10; there are four cores.
    processors, rank, switch = a_load().needs(10, cores=4)
    assert processors == pytest.approx(10 / 10 / 4)
    assert rank == pytest.approx(1e8 * 5e-9 / 10)
    assert switch == pytest.approx(2e8 * 2e-9 / 10)


def test_a_short_transfer_between_long_pauses_needs_less():
    # A second at dilation 10 has at most one iteration, with a tenth of the bytes that fit.
    short = a_load(iteration_bytes=1e7).needs(10, cores=4)
    assert short == pytest.approx([each / 10 for each in a_load().needs(10, cores=4)])
    # A hundred iterations of a hundredth of a second each leave no pauses.
    many = a_load(iteration_bytes=1e7, iteration_s=0.01).needs(1, cores=4)
    assert many[0] == pytest.approx(1e9 * 10e-9 / 4)


def test_who_sends_nothing_needs_nothing():
    assert a_load(total=0.0, iteration_bytes=0.0, iteration_s=0.0).needs(10, cores=4) == (0, 0, 0)


def test_a_target_that_is_not_here_can_be_planned_for(tmp_path, monkeypatch):
    monkeypatch.setattr("testbed.switches.bmv2.installed", lambda: False)
    native, slow = (
        busy(tmp_path, fabric__ina="all", emulation__target=target) for target in ("native", "bmv2")
    )
    assert demand_of(slow).strain(100) > 2 * demand_of(native).strain(100)


def test_the_tightest_of_cores_ranks_and_switches_decides():
    free = 1 - 0.35
    assert Demand((a_load(),), 4, 0).strain(10) == pytest.approx(0.25 / free)
    assert Demand((a_load(host=1e9),), 4, 0).strain(10) == pytest.approx(0.5 / free)
    # Two jobs share cores and switches, but not hosts.
    assert Demand((a_load(), a_load()), 4, 0).strain(10) == pytest.approx(0.5 / free)
    assert Demand((a_load(host=1e9),) * 2, 100, 0).strain(10) == pytest.approx(0.5 / free)
    assert Demand((a_load(switch=1e9),) * 2, 100, 0).strain(10) == pytest.approx(0.4 / free)


def test_the_smallest_tidy_dilation_that_leaves_room():
    needed = Demand((a_load(),), 4, late_s=0.0)
    assert needed.enough() == 5  # (10 / 5 / 4) / 0.65 is 0.77
    assert needed.strain(5) <= COMFORT < needed.strain(4)
    # A wake-up that is late by 5 % of an iteration of 0.1 s needs a larger dilation.
    late = Demand((a_load(iteration_s=0.01),), 4, late_s=0.005)
    assert late.late(late.enough()) <= COMFORT < late.late(late.enough() / 1.5)


def test_strain_grows_with_what_is_asked(tmp_path):
    ring = demand_of(busy(tmp_path, jobs__0__system="ring"))
    assert ring.strain(100) == pytest.approx(ring.strain(200) * 2)
    atp = busy(tmp_path, fabric__ina="all")
    slow = replace(MEASURED, costs={**COSTS, "native": Costs(160.0, 160.0, 40.0)})
    assert demand_of(atp, slow).strain(100) == pytest.approx(10 * demand_of(atp).strain(100))


def test_what_is_clearly_beyond_the_machine_is_refused_with_what_would_do(tmp_path, known):
    known(MEASURED)
    needed = demand_of(busy(tmp_path))
    limit = needed.strain(1)  # at this dilation the machine is just full
    for factor, warned, refused in ((1.2, False, False), (0.7, True, False), (0.4, True, True)):
        wanted = busy(tmp_path, emulation__dilation=limit * factor)
        (planned,) = New(wanted, tmp_path).planned
        assert (planned.warning is not None, planned.refusal is not None) == (warned, refused)
    with pytest.raises(DeploymentError, match=f"set emulation.dilation to {needed.enough():g} or"):
        refuse([planned])
    assert needed.strain(needed.enough()) < 1 < BEYOND


def test_what_was_not_measured_refuses_nothing(tmp_path, known):
    """A calibration without BMv2 says nothing of cells with BMv2."""
    known(MEASURED)
    wanted = busy(tmp_path, fabric__ina="all", emulation__dilation=1, emulation__target="bmv2")
    (planned,) = New(wanted, tmp_path).planned
    assert planned.refusal is None
    assert "`ina-testbed calibrate` measures its actual capacity" in planned.warning


@pytest.mark.parametrize("verb", ["run", "train"])
def test_the_command_line_refuses_unless_forced(verb, tmp_path, known, monkeypatch):
    known(MEASURED)
    path = tmp_path / "beyond.yaml"
    job = {"jobs__0__workload": "training/digits-cnn", "jobs__0__training": {"rate": 0.05}}
    path.write_text(dump(experiment(tmp_path, emulation__dilation=1, **job)))
    tried = []
    monkeypatch.setattr(New, "run", lambda self, *rest, **more: tried.append(self) or (tmp_path, 1))
    monkeypatch.setattr("testbed.studies.reporting.report", lambda *where: where)
    refused = invoke(verb, path, "-o", tmp_path)
    assert refused.exit_code == 1
    assert "set emulation.dilation to" in refused.output
    assert not tried
    invoke(verb, path, "-o", tmp_path, "--force")
    assert len(tried) == 1


def test_guesses_warn_and_refuse_nothing(tmp_path, known):
    known(None)
    (planned,) = New(busy(tmp_path, emulation__dilation=1), tmp_path).planned
    assert "ina-testbed calibrate" in planned.warning
    assert planned.refusal is None


def test_auto_is_one_number_for_all_cells(tmp_path, known):
    known(MEASURED)
    systems = ["ring", "atp"]
    sweep = {"jobs.0.system": systems}
    auto = busy(tmp_path, fabric__ina="all", emulation__dilation="auto", sweep=sweep)
    assert loads(dump(auto)) == auto
    new = New(auto, tmp_path)
    dilations = {each.cell.experiment.emulation.dilation for each in new.planned}
    each_alone = {
        demand_of(busy(tmp_path, fabric__ina="all", jobs__0__system=system)).enough()
        for system in systems
    }
    assert dilations == {max(each_alone)}
    assert len(each_alone) == 2
    assert not any(each.warning for each in new.planned)
    assert f"dilation: {max(each_alone):g}\n" in dump(new._experiment)


def test_a_run_goes_on_with_the_dilation_that_it_began_with(tmp_path, known):
    known(MEASURED)
    auto = busy(tmp_path, emulation__dilation="auto")
    first = capacity.resolved(auto, MEASURED, Deployments())
    slower = replace(MEASURED, late_s=100.0)
    assert capacity.resolved(auto, slower, Deployments()) != first
    assert capacity.resolved(auto, slower, Deployments(), before=first) == first


def test_simulations_need_no_dilation(tmp_path):
    auto = experiment(tmp_path, backend="simulate", emulation__dilation="auto")
    (planned,) = New(auto, tmp_path).planned
    assert planned.warning is None


def test_auto_cannot_be_swept(tmp_path):
    auto = experiment(tmp_path, sweep={"emulation.dilation": ["auto", 100]})
    with pytest.raises(DeploymentError, match="found auto in the sweep"):
        New(auto, tmp_path)


def test_a_calibration_holds_for_its_machine_and_code_alone(known):
    known(MEASURED)
    assert calibration.load() == MEASURED
    for key, value in (("kernel", "2.4"), ("cores", 999), ("code", "x")):
        other = replace(MEASURED, machine=MEASURED.machine | {key: value})
        known(other)
        assert calibration.read() == other
        assert calibration.load() is DEFAULTS


def test_the_doctor_says_what_is_known(known):
    assert calibration.check().status == "limited"
    known(MEASURED)
    assert calibration.check().status == "ok"
    assert MEASURED.measured_at in calibration.check().detail
    known(replace(MEASURED, machine=MEASURED.machine | {"kernel": "2.4"}))
    assert calibration.check().status == "limited"
    assert "another kernel" in calibration.check().detail


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"costs": {"tcp": {"x": 1}}}', "\0"])
def test_a_broken_calibration_is_none(known, text):
    known(MEASURED)
    calibration.path().write_text(text)
    assert calibration.read() is None
    assert calibration.load() is DEFAULTS


def test_it_is_told_in_the_units_of_networks(known):
    costs = {"native": Costs(link=16.0, rank=8.0, switch=10.0)}
    said = calibration.describe(Calibration(costs, 0.0123, 0.1, kept=0.97))
    assert "0.50 Gbit/s of links per core" in said[0]
    assert "packets/s into a switch" in said[0]
    assert "12.3 ms late" in said[1]
    assert "97%" in said[1]


@pytest.fixture
def known(tmp_path, monkeypatch):
    """A function that stores a calibration as this machine's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def put(what: Calibration | None) -> None:
        if what is not None:
            assert calibration.store(what) == calibration.path()
            assert json.loads(calibration.path().read_text()) == json.loads(
                json.dumps(asdict(what))
            )

    return put
