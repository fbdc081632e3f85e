"""What a job did, from when its workers' iterations began and ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from testbed import results
from testbed.endpoint.task import Iteration
from testbed.harness.deployment import DeployedJob
from testbed.results import Row, algbw


def measure(
    row: Row, job: DeployedJob, workers: Sequence[Sequence[Iteration]], real: float
) -> tuple[Row, list[results.Iteration]]:
    """``row`` with times and rates filled in, and a record of each iteration of each worker.

    ``workers`` holds every worker's iterations, warm-up included; ``real`` turns their clock's
    seconds, and those of ``job``, into the real cluster's.
    """
    measured = [own[job.job.warmup :] for own in workers]
    start = min(own[0].start for own in measured)
    if job.plan.consistency is None:
        jct = max(own[-1].end for own in measured) - start
    else:
        # They begin one after another, which is no part of the job.
        jct = max(own[-1].end - own[0].start for own in measured)
    by_iteration = list(zip(*measured, strict=True))
    count = len(by_iteration)
    exposed = [max(each.end - each.compute_end for each in ranks) for ranks in by_iteration]
    # The job communicates from its first ready bucket to its last sum.
    compute = [min(each.compute_end - each.start for each in ranks) for ranks in by_iteration]
    share = job.units[0].ready_s / job.compute_s if job.compute_s else 0.0
    transfer = [
        max(each.end - each.start for each in ranks) - share * compute_s
        for ranks, compute_s in zip(by_iteration, compute, strict=True)
    ]
    filled = replace(
        row,
        jct_s=jct * real,
        iteration_s=jct * real / count,
        throughput_samples_s=job.plan.workers * job.trace.batch * count / (jct * real),
        algbw_gbit_s=algbw(job.gradient_bytes / row.scale, fmean(transfer) * real) / 1e9,
        exposed_comm_s=fmean(exposed) * real,
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
        )
        for rank, own in enumerate(measured)
        for index, each in enumerate(own)
    ]
    return filled, iterations
