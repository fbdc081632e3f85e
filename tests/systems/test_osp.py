"""OSP: what it defers, which system carries it, and the length of an iteration."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.plan import chain
from testbed.plan import cost as model
from testbed.plan.checker import check
from testbed.plan.units import cut
from testbed.systems import Assignment, registry
from testbed.systems.osp import by_importance, second_stage
from testbed.topology.builders import leaf_spine
from testbed.workload.buckets import after_compute, fill
from testbed.workload.catalogue import load
from testbed.workload.trace import Tensor, Trace

RATE = 1e10
FABRIC = leaf_spine(2, 2, 5, RATE, RATE, 256_000).with_ina(["t0", "t1"])
OSP = registry["osp"]
CARRIERS = [name for name, system in registry.items() if system.carries]
SMALL = Trace("small", 1, tuple(Tensor(f"t{i}", n, 0.5, 0.5) for i, n in enumerate((9, 4, 4, 2))))


def osp(trace=None, workers=8, fabric=FABRIC, **options):
    trace = trace or load("resnet50")
    hosts = fabric.hosts
    return OSP.plan(Assignment(hosts[:workers], hosts[9:], OSP.settle(options), trace), fabric)


def size(trace, tensors):
    return sum(trace.tensors[index].elements for index in tensors) * trace.dtype_bytes


@pytest.mark.parametrize("workload", ["resnet50", "bert-base"])
@pytest.mark.parametrize("carrier", ["ps", "atp", "switchml"])
@pytest.mark.parametrize("importance", ["pgp", "first", "last", "size", "random"])
def test_compute_hides_what_is_deferred_and_hardly_more(workload, carrier, importance):
    trace = load(workload)
    plan = osp(trace, carrier=carrier, importance=importance)
    check(plan)
    hidden = trace.compute_s / model.seconds_per_byte(plan, FABRIC)
    deferred = size(trace, plan.deferred)
    assert deferred <= hidden
    if deferred < 0.9 * hidden:  # tensors are left only if too large, or never deferred
        left = [i for i in range(len(trace.tensors)) if i not in plan.deferred]
        spare = hidden - deferred
        most_important = by_importance(trace, importance)[0]
        assert all(i == most_important or size(trace, [i]) > spare for i in left)


def test_over_one_server_the_bound_is_bandwidth_times_compute_over_workers():
    plan = osp()
    trace = load("resnet50")
    bound = RATE / 8 * trace.compute_s / 8
    assert 0.9 * bound < size(trace, plan.deferred) <= bound


def test_the_bound_falls_with_lost_packets_and_grows_as_training_goes_on():
    trace = load("resnet50")
    bound = RATE / 8 * trace.compute_s / 8
    for options, part in (({"packet_loss": 0.25}, 0.8), ({"training_loss": 0.6}, 0.4)):
        assert part * bound - 2e6 < size(trace, osp(**options).deferred) <= part * bound
    with pytest.raises(ValueError, match=r"wanted at most 0.244: .*"):
        osp(deferred=0.26, packet_loss=0.25)
    with pytest.raises(ValueError, match=r"nothing to defer: .* lower training_loss"):
        osp(training_loss=1 - 1e-9)


def test_the_plan_is_the_carriers():
    hosts = FABRIC.hosts
    for carrier in CARRIERS:
        system = registry[carrier]
        carried = system.plan(Assignment(hosts[:8], hosts[9:], system.settle({})), FABRIC)
        plan = osp(carrier=carrier, servers="best")
        assert (plan.programs, plan.trees, plan.pipelining) == (
            carried.programs,
            carried.trees,
            carried.pipelining,
        )
        assert plan.system == "osp" and plan.deferred
        assert chain.length(plan) == chain.length(carried)


def test_importance_by_hand():
    assert by_importance(SMALL, "first") == [0, 1, 2, 3]
    assert by_importance(SMALL, "last") == [3, 2, 1, 0]
    assert by_importance(SMALL, "size") == [0, 1, 2, 3]
    drawn = by_importance(SMALL, "random", 3)
    assert sorted(drawn) == [0, 1, 2, 3]
    assert drawn == by_importance(SMALL, "random", 3)
    assert len({tuple(by_importance(SMALL, "random", seed)) for seed in range(9)}) > 1


def test_importance_is_the_recorded_product_where_there_is_one():
    known = replace(SMALL, provenance={"pgp": "1 3 0.5 2"})
    assert by_importance(known, "pgp") == by_importance(known, "auto") == [3, 1, 2, 0]
    assert by_importance(SMALL, "auto") == by_importance(SMALL, "first")
    for broken in (SMALL, replace(SMALL, provenance={"pgp": "1 2"})):
        with pytest.raises(ValueError, match=r"found pgp for small, which has no product .* first"):
            by_importance(broken, "pgp")


@pytest.mark.parametrize(
    "workload", ["bert-base", "gpt2", "resnet18", "resnet50", "resnet101", "vgg16"]
)
def test_shipped_workloads_have_a_recorded_importance(workload):
    trace = load(workload)
    assert "steps of training" in trace.provenance["pgp_recorded"]
    order = by_importance(trace, "pgp")
    assert order not in (by_importance(trace, "first"), by_importance(trace, "size"))
    assert osp(trace).deferred == osp(trace, importance="pgp").deferred


def test_the_biases_of_keys_matter_least_in_bert():
    """Softmax ignores a constant added to all scores of a query: their gradient is zero."""
    trace = load("bert-base")
    order = by_importance(trace, "pgp")
    assert all(trace.tensors[i].name.endswith("self.key.bias") for i in order[-12:])


@pytest.mark.parametrize("carrier", ["ps", "byteps"])
def test_the_carrier_takes_pieces_and_their_number(carrier):
    unset, given = osp(carrier=carrier), osp(carrier=carrier, partition=8_000, credit=0)
    assert (unset.pipelining.partition, unset.pipelining.credit) != (8_000, None)
    assert (given.pipelining.partition, given.pipelining.credit) == (8_000, None)


def test_each_repeat_has_its_own_draw_if_the_carrier_draws():
    settled = OSP.options.model_validate
    assert settled({"carrier": "grid"}).draws_anew()
    assert not settled({"carrier": "atp"}).draws_anew()


def test_the_least_important_go_first_and_what_does_not_fit_is_passed_over():
    assert second_stage(SMALL, [0, 1, 2, 3], 8) == {3}
    assert second_stage(SMALL, [0, 1, 2, 3], 24) == {2, 3}
    assert second_stage(SMALL, [3, 1, 0, 2], 32) == {2, 1}
    assert second_stage(SMALL, [3, 1, 0, 2], 10**6) == {0, 1, 2}
    assert second_stage(SMALL, [0, 1, 2, 3], 7) == frozenset()


def test_a_part_may_be_asked_for_as_far_as_compute_hides_it():
    trace = load("resnet50")
    assert 0.04 < size(trace, osp(deferred=0.05).deferred) / trace.bytes <= 0.05
    with pytest.raises(ValueError, match=r"found 0.5, wanted at most 0.305: compute of 213ms hide"):
        osp(deferred=0.5)
    with pytest.raises(ValueError, match="auto, or a part"):
        OSP.settle({"deferred": 0})
    with pytest.raises(ValueError, match="auto, or a part"):
        OSP.settle({"deferred": 1.0})


@pytest.mark.parametrize(
    ("trace", "fix"),
    [
        (Trace("one", 1, (Tensor("only", 4, 1.0, 1.0),)), "the carrier alone"),
        (Trace("instant", 1, (Tensor("a", 4, 0, 0), Tensor("b", 4, 0, 0))), "the carrier alone"),
    ],
)
def test_nothing_to_defer_is_refused(trace, fix):
    with pytest.raises(ValueError, match=f"osp has nothing to defer: .*{fix}"):
        osp(trace)


def test_a_part_too_small_for_any_tensor_is_refused():
    with pytest.raises(ValueError, match=r"nothing to defer: .* raise deferred"):
        osp(deferred=1e-9)


def test_without_a_trace_it_says_so():
    with pytest.raises(ValueError, match="needs a trace"):
        OSP.plan(Assignment(FABRIC.hosts[:2], FABRIC.hosts[9:]), FABRIC)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.3, 0.6])
def test_an_iteration_is_compute_the_first_stage_and_what_compute_does_not_hide(share):
    trace = load("resnet50")
    plan = osp(carrier="atp")
    # Sending 0.3 of the gradient takes longer than compute.
    slow = 40 * model.seconds_per_byte(plan, FABRIC)
    narrow = leaf_spine(2, 2, 5, RATE / 40, RATE, 256_000).with_ina(["t0", "t1"])
    deferred = second_stage(trace, by_importance(trace, "first"), share * trace.bytes)
    later = size(trace, deferred)
    buckets = after_compute(fill(trace, deferred=deferred), trace.compute_s)
    pieces = [(bucket.ready_s, bucket.bytes) for bucket in buckets]
    found = model.ClosedForm(plan, narrow).iteration(model.Timing(pieces, trace.compute_s))
    exposed = (trace.bytes - later) * slow + max(0.0, later * slow - trace.compute_s)
    assert found.iteration_s == pytest.approx(trace.compute_s + exposed)
    assert found.exposed_s == pytest.approx(exposed)


def test_what_is_hidden_is_won():
    trace, plan = load("resnet50"), osp(carrier="ps")
    lasts = []
    for deferred in ((), plan.deferred):
        buckets = after_compute(fill(trace, 10**6, 10**6, deferred=deferred), trace.compute_s)
        pieces = [(unit.ready_s, unit.elements * 4) for unit in cut(buckets, plan, 1)]
        lasts.append(
            model.ClosedForm(plan, FABRIC)
            .iteration(model.Timing(pieces, trace.compute_s))
            .iteration_s
        )
    hidden = size(trace, plan.deferred) * model.seconds_per_byte(plan, FABRIC)
    assert hidden > 0.9 * trace.compute_s
    assert lasts[0] - lasts[1] == pytest.approx(hidden, rel=0.1)


def test_a_carrier_without_servers_is_given_none(monkeypatch):
    from testbed.systems import ring

    seen = []

    def plan(job, fabric):
        seen.append(job.servers)
        return ring.plan(job, fabric)

    monkeypatch.setitem(registry, "ps", replace(ring.SYSTEM, plan=plan))
    osp()
    assert seen == [()]
