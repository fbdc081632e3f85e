"""The backend ``ina`` of torch.distributed: sums go through switches, all else through gloo."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from testbed.torch.errors import GroupError
from testbed.torch.summing import Summing
from testbed.workload.quantise import Int32

_SUMS = (dist.ReduceOp.SUM, dist.ReduceOp.AVG)


def _by_gloo(name: str) -> Callable[..., Any]:
    def call(group: Group, *arguments: Any, **named: Any) -> Any:
        return getattr(group._gloo, name)(*arguments, **named)

    return call


class Group(dist.ProcessGroup):  # type: ignore[misc]
    """The ranks of a group, as torch.distributed uses them.

    Sums and means of float32 go through the switches. Integers, other reductions and all other
    collectives go through gloo, and so does a group of one rank.
    """

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)

        def gloo(name: str) -> Any:
            return dist.ProcessGroupGloo(dist.PrefixStore(name, store), rank, size, timeout)

        self._gloo = gloo("gloo")
        # What is not defined here goes to the backend of the tensor's device.
        self._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, self._gloo)
        self._summing: Summing | None = None
        if size > 1:
            # Sums run in a thread of their own, so their ranks agree in a group of their own.
            agreeing, meeting = gloo("agree"), dist.PrefixStore("ina", store)
            self._summing = Summing(
                meeting, rank, size, timeout.total_seconds(), _agreement(agreeing)
            )

    def getBackendName(self) -> str:
        return "ina"

    def shutdown(self) -> None:
        if self._summing is not None:
            self._summing.close()

    abort = shutdown

    def allreduce(self, tensors: list[Any], opts: Any = None) -> Any:
        opts = dist.AllreduceOptions() if opts is None else opts
        if self._summing is None or not self._is_sum("all_reduce", tensors, opts.reduceOp):
            return self._gloo.allreduce(tensors, opts)
        return self._sum(tensors, opts.reduceOp, lambda: None)

    def reduce_scatter(self, outputs: list[Any], inputs: list[list[Any]], opts: Any = None) -> Any:
        opts = dist.ReduceScatterOptions() if opts is None else opts
        if self._summing is None or not self._is_sum("reduce_scatter", inputs[0], opts.reduceOp):
            return self._gloo.reduce_scatter(outputs, inputs, opts)
        whole = torch.cat([each.reshape(-1) for each in inputs[0]])
        return self._scatter(outputs[0], whole, [each.numel() for each in inputs[0]], opts.reduceOp)

    def _reduce_scatter_base(self, output: Any, whole: Any, opts: Any = None) -> Any:
        opts = dist.ReduceScatterOptions() if opts is None else opts
        if self._summing is None or not self._is_sum("reduce_scatter", [whole], opts.reduceOp):
            return self._gloo._reduce_scatter_base(output, whole, opts)
        parts = [output.numel()] * self.size()
        return self._scatter(output, whole.reshape(-1).clone(), parts, opts.reduceOp)

    reduce_scatter_single = _reduce_scatter_base

    # PyTorch's own keep the GIL while they wait for the lock of gloo's queue, whose holder may wait
    # for the GIL to free a tensor.
    allgather = _by_gloo("allgather")
    allreduce_coalesced = _by_gloo("allreduce_coalesced")
    alltoall_base = all_to_all_single = _by_gloo("alltoall_base")
    barrier = _by_gloo("barrier")
    broadcast = _by_gloo("broadcast")

    def mean(self, tensor: Any) -> Any:
        """Replace ``tensor`` by its mean over the ranks; a future of it."""
        if self._summing is None:
            done = torch.futures.Future()
            done.set_result(tensor)
            return done
        self._is_sum("all_reduce", [tensor], dist.ReduceOp.AVG)
        return self._started([tensor], dist.ReduceOp.AVG, lambda: None, tensor)[0]

    def _is_sum(self, what: str, tensors: list[Any], operation: Any) -> bool:
        """Whether switches make it. GroupError if only they should, and cannot."""
        (dtype,) = {each.dtype for each in tensors} or {None}
        (device,) = {each.device for each in tensors}
        if device.type != "cpu":
            raise GroupError(f"{what}: found a tensor on {device}, wanted cpu")
        is_sum = any(operation == each for each in _SUMS)
        if not is_sum or not (dtype.is_floating_point or dtype.is_complex):
            return False
        if dtype != torch.float32:
            raise GroupError(
                f"{what}: found {dtype}, wanted torch.float32, whose sums switches make; convert"
                " the tensor, or sum it in a group of the backend gloo"
            )
        return True

    def _scatter(self, output: Any, whole: Any, parts: list[int], operation: Any) -> Any:
        """Switches give all ranks the whole sum, of which each keeps its part."""

        def keep() -> None:
            output.copy_(whole.split(parts)[self.rank()].view_as(output))

        return self._sum([whole], operation, keep)

    def _sum(self, tensors: list[Any], operation: Any, then: Callable[[], None]) -> Any:
        return _Sum(*self._started(tensors, operation, then, tensors))

    def _started(
        self, tensors: list[Any], operation: Any, then: Callable[[], None], result: Any
    ) -> tuple[Any, list[BaseException]]:
        """The future ``result`` of a sum and what follows it, and room for its error."""
        summing, ended = self._summing, torch.futures.Future()
        assert summing is not None
        divisor = self.size() if operation == dist.ReduceOp.AVG else 1
        errors: list[BaseException] = []

        def order() -> None:
            try:
                with torch.no_grad():
                    for each in tensors:
                        self._replace(each.detach(), divisor)
                    then()
            except BaseException as error:
                errors.append(error)
            ended.set_result(None)

        def found(_: Any) -> Any:
            # Raised here, it is the future's error for PyTorch's own code, too.
            if errors:
                raise errors[0]
            return result

        future = ended.then(found)
        summing.submit(order)
        return future, errors

    def _replace(self, values: Any, divisor: int) -> None:
        assert self._summing is not None
        flat = values.contiguous().reshape(-1)
        if values.numel():
            self._summing.sum(flat.numpy(), divisor)
        if flat.data_ptr() != values.data_ptr():  # a copy, which was contiguous
            values.copy_(flat.view_as(values))


class _Sum(dist.Work):  # type: ignore[misc]
    """A sum that has been started."""

    def __init__(self, future: Any, errors: list[BaseException]) -> None:
        super().__init__()
        self._future, self._errors = future, errors

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it is there, as long as the group's timeout allows. GroupError if it fails."""
        try:
            self._future.wait()
        except RuntimeError:
            if self._errors:
                raise self._errors[0] from None
            raise
        return True

    def is_completed(self) -> bool:
        return bool(self._future.done())

    def get_future(self) -> Any:
        return self._future


def _agreement(group: Any) -> Callable[[Int32], None]:
    def agree(numbers: Int32) -> None:
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.MAX
        group.allreduce([torch.from_numpy(numbers)], options).wait()

    return agree
