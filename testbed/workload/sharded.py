"""When sharded parameters are gathered, and when their gradients are summed.

The rules are those of PyTorch's FSDP (docs/source/notes/fsdp.rst). Each group of tensors is
gathered before its forward pass and again before its backward pass, after which its gradients are
summed. The next group is gathered while the current one computes; for the first group of either
pass, no computation hides the gathering. All collectives have one order: a backward pass issues the
gathering of the next group before the sum of its own gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from testbed.workload.buckets import Bucket
from testbed.workload.replay import needs
from testbed.workload.trace import Trace


def schedule(
    trace: Trace, buckets: Sequence[Bucket], reshard: bool
) -> tuple[tuple[Bucket, ...], tuple[float, ...]]:
    """An iteration's buckets in issue order, and the seconds of the parts of its computation.

    ``buckets`` are the groups of tensors, of the same scale as ``trace``. In the result each group
    is gathered (`needed` by a part) once or, with ``reshard``, twice, and summed once. The parts
    are the groups' forward passes, then their backward passes.
    """
    forward = needs(trace, buckets)
    ready = [trace.forward_s, *(bucket.ready_s for bucket in buckets)]
    parts = [*(need.seconds for need in forward), *(end - start for start, end in pairwise(ready))]
    begins = [0.0, *accumulate(parts)]
    first = len(forward)  # of the parts of the backward pass
    group = {bucket.index: bucket for bucket in buckets}

    def gathered(bucket: Bucket, part: int) -> Bucket:
        # A part's group is gathered while the previous part computes. The backward pass's first one
        # is gathered after the forward pass.
        after = part - 1 if part else None
        ready_s = begins[part] if part in (0, first) else begins[part - 1]
        return replace(bucket, ready_s=ready_s, after=after, needed=part)

    issued = [gathered(group[need.bucket], part) for part, need in enumerate(forward)]
    again = [gathered(bucket, first + place) for place, bucket in enumerate(buckets) if reshard]
    issued += again[:1]
    for place, bucket in enumerate(buckets):
        issued += again[place + 1 : place + 2]
        issued.append(replace(bucket, after=first + place))
    return tuple(issued), tuple(parts)
