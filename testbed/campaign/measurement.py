"""The metrics of a job, computed from the times of its workers' iterations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from testbed import results
from testbed.deployment.deploy import DeployedJob
from testbed.results import Row, algbw
from testbed.workload.iteration import IterationTimes, completion_s, paces


def measure(
    row: Row, job: DeployedJob, workers: Sequence[Sequence[IterationTimes]], real: float
) -> tuple[Row, list[results.Iteration]]:
    """``row`` with times and rates filled in, and a record of each iteration of each worker.

    ``workers`` has every worker's iterations, warm-up included; ``real`` is the factor from seconds
    on their clock to seconds of the real cluster.
    """
    warmup = job.job.warmup
    # The next forward pass may begin before the last sum has arrived, so an iteration lasts from
    # the last sum of the previous one to its own last sum.
    begun = [[own[0].start, *(each.end for each in own[:-1])][warmup:] for own in workers]
    measured = [own[warmup:] for own in workers]
    start = min(own[0] for own in begun)
    together = job.plan.consistency is None
    jct = completion_s(workers, warmup, together)
    computed = [[each.compute_end - each.start - each.stalled for each in own] for own in measured]
    exposed = [
        [each.end - since - took for each, since, took in zip(*of_one, strict=True)]
        for of_one in zip(measured, begun, computed, strict=True)
    ]
    # The job communicates from the time when its first bucket is ready to its last sum.
    first_ready_s = min(unit.ready_s for unit in job.units)
    share = first_ready_s / job.compute_s if job.compute_s else 0.0
    # Waiting for the sums of an earlier iteration does not count as communication of this one.
    apart = 0 if job.parts else 1
    transfer = [
        max(each.end - each.start - apart * each.stalled for each in ranks) - share * min(took)
        for ranks, took in zip(
            zip(*measured, strict=True), zip(*computed, strict=True), strict=True
        )
    ]
    count = len(transfer)
    rate = job.plan.workers * count / jct if together else sum(paces(workers, warmup))
    filled = replace(
        row,
        jct_s=jct * real,
        iteration_s=jct * real / count,
        throughput_samples_s=job.trace.batch * rate / real,
        algbw_gbit_s=algbw(job.gradient_bytes / row.scale, fmean(transfer) * real) / 1e9,
        exposed_comm_s=fmean(map(max, zip(*exposed, strict=True))) * real,
    )
    iterations = [
        results.Iteration(
            cell=row.cell,
            repeat=row.repeat,
            job=row.job,
            system=row.system,
            workload=row.workload,
            rank=rank,
            iteration=index,
            start_s=(each.start - start) * real,
            compute_end_s=(each.compute_end - start) * real,
            end_s=(each.end - start) * real,
            stalled_s=each.stalled * real,
            stalls=json.dumps(
                [[(at - start) * real for at in (wait.start_s, wait.end_s)] for wait in each.stalls]
            ),
        )
        for rank, own in enumerate(measured)
        for index, each in enumerate(own)
    ]
    return filled, iterations
