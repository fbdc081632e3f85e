"""Samples of real gradients: the shipped ones, and base values drawn from them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from testbed.workload import values
from testbed.workload.catalogue import FAMILIES, names
from testbed.workload.gradients import LARGEST_CONSTANT, Gradients
from testbed.workload.quantise import BlockExponent, Factor, errors
from testbed.workload.trace import TraceError
from testbed.workload.values import Sample, load

SHIPPED = sorted(set(FAMILIES.values()))


def made_up(workers: int = 4, blocks: int = 6) -> Sample:
    """Workers differ only by noise; blocks have different magnitudes, as in real gradients."""
    rng = np.random.default_rng(1)
    common = rng.normal(size=(1, blocks, 256)) * 10.0 ** (np.arange(blocks) % 6 - 3)[:, None]
    own = 0.1 * rng.normal(size=(workers, blocks, 256)) * np.abs(common)
    return Sample("made up", (common + own).astype(np.float32))


def test_every_shipped_workload_has_a_sample() -> None:
    assert set(FAMILIES) == set(names())


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_samples_are_real_gradients(name: str) -> None:
    sample = load(name)
    assert sample.values.shape == (8, 128, 256)
    facts = sample.statistics()
    assert 0 < facts.rms < 1
    # Heavy tails and different magnitudes; with normal values the ratio is about 5.
    assert facts.magnitudes[1.0] / facts.rms > 10
    assert facts.zeros < 0.7  # most of VGG-16 is behind rectifiers and dropout
    # With the same weights but different data, they are not equal, and with small batches hardly
    # correlated.
    assert -0.2 < facts.likeness < 0.99
    assert {"model", "data", "loss", "batch", "seed"} <= set(sample.provenance)


@pytest.mark.parametrize("name", SHIPPED)
def test_block_exponents_lose_less_than_a_fixed_factor(name: str) -> None:
    found = errors(load(name).by_worker())
    assert found["int32, block exponent (SwitchML)"] < 1e-6
    assert found["int32, block exponent (SwitchML)"] < found["int32, factor 1e6 (ATP)"]


def test_a_workload_without_sample_names_those_that_have_one() -> None:
    with pytest.raises(TraceError, match="no sample of real gradients for 'x'; there are for bert"):
        load("x")


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 no archive"])
def test_a_damaged_sample_is_refused(
    damage: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gpt2.gradients.npz").write_bytes(damage)
    monkeypatch.setattr(values, "WORKLOADS", tmp_path)
    with pytest.raises(TraceError, match=r"gpt2\.gradients\.npz: cannot be read"):
        load("gpt2")


def test_ranks_of_a_group_are_alike_as_the_workers_were() -> None:
    sample = made_up(blocks=100)
    ranks = [sample.draw(7, rank, 5000) for rank in range(8)]
    alike = np.corrcoef(ranks)
    assert alike[:4, :4].min() > 0.9 and alike[4:, 4:].min() > 0.9
    assert np.abs(alike[:4, 4:]).max() < 0.5
    assert np.unique(np.array(ranks)[:, 0]).size == 8


def test_drawn_values_have_unit_deviation_and_follow_the_seed() -> None:
    sample = made_up()
    drawn = sample.draw(1, 0, 100_000)
    assert drawn.dtype == np.float32
    assert float(np.sqrt(np.mean(np.square(drawn)))) == pytest.approx(1, rel=0.2)
    assert np.array_equal(drawn, sample.draw(1, 0, 100_000))
    assert np.array_equal(drawn[:700], sample.draw(1, 0, 700))
    assert not np.array_equal(drawn, sample.draw(2, 0, 100_000))


def test_gradients_of_real_values_sum_up_as_any() -> None:
    sample = made_up()
    gradients = Gradients(3, 6, 1000, 16, sample)
    total = sum(gradients.values(rank, 9, 0, 1000).astype(np.int64) for rank in range(6))
    assert gradients.wrong(np.array(total, np.int32), 0, 9) == 0
    quantised = np.rint(sample.draw(3, 2, 1000) * np.float64(2**16))
    assert np.array_equal(gradients.base(2), quantised)


def test_heavy_tails_overflow_where_normal_values_do_not() -> None:
    exact = [
        sum(g.base(rank).astype(np.int64) for rank in range(8))
        for g in (Gradients(1, 8, 50_000, 27), Gradients(1, 8, 50_000, 27, made_up()))
    ]
    normal, real = (np.abs(total).max() for total in exact)
    assert normal < 2**31 < real


def test_the_error_of_a_sum_is_measured_against_real_gradients_before_they_were_integers() -> None:
    sample = made_up()
    drawn = [sample.draw(3, rank, 1000) for rank in range(6)]
    blocks = BlockExponent.agreed(drawn, 6, LARGEST_CONSTANT)
    coarse, fine, block = (
        Gradients(3, 6, 1000, sample=sample, quantiser=quantiser)
        for quantiser in (Factor(10.0), Factor(1e4), blocks)
    )
    exact = sum(each.astype(np.float64) for each in drawn)
    assert coarse.exact_total() == pytest.approx(exact)
    errors = [
        each.quantisation_error(each.expected_total().astype(np.float64))
        for each in (coarse, fine, block)
    ]
    by_hand = sum(np.rint(each * 10.0) for each in drawn) / 10.0 - exact
    assert errors[0] == pytest.approx(np.linalg.norm(by_hand) / np.linalg.norm(exact), rel=1e-6)
    assert errors[0] > 100 * errors[1] > 100 * errors[2] > 0
    # A sum without one worker's contribution has a large error.
    lacking = fine.expected_total() - fine.base(2)
    assert fine.quantisation_error(lacking.astype(np.float64)) > 0.05


def test_normal_gradients_have_no_error() -> None:
    with pytest.raises(ValueError, match="integers from the start"):
        Gradients(1, 2, 10).quantisation_error(np.zeros(10))
