"""The backend ``ina`` of torch.distributed: sums go through switches, everything else through
gloo."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from testbed.torch import staging
from testbed.torch.errors import GroupError
from testbed.torch.summing import Summing
from testbed.workload.quantise import Int32

_SUMS = (dist.ReduceOp.SUM, dist.ReduceOp.AVG)


def _by_gloo(name: str) -> Callable[..., Any]:
    def call(group: Group, *arguments: Any, **named: Any) -> Any:
        start = getattr(group._gloo, name)
        if all(each.device.type == "cpu" for each in staging.flat(list(arguments))):
            return start(*arguments, **named)
        hosts = staging.nested(name, arguments)
        # Every collective writes its first argument, except send.
        written = () if name == "send" else (arguments[0], hosts[0])
        return _Staged(start(*hosts, **named), *map(staging.flat, written))

    return call


class Group(dist.ProcessGroup):  # type: ignore[misc]
    """The ranks of a group, as torch.distributed uses them.

    Sums and means of float32 go through the switches. Integers, other reductions and all other
    collectives go through gloo, and so does a group of one rank. Values of tensors that a GPU or
    another device has go through host memory.
    """

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)

        def gloo(name: str) -> Any:
            return dist.ProcessGroupGloo(dist.PrefixStore(name, store), rank, size, timeout)

        backend = torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, gloo("gloo")
        # Collectives that are not defined here go to the backend of the tensor's device.
        self._register_backend(*backend)
        # The flight recorder, which is on where there is a GPU, takes the group's name from it.
        if hasattr(self, "_set_default_backend"):  # not in old versions
            self._set_default_backend(backend[1])
        self._gloo = dist.ProcessGroup(rank, size)
        self._gloo._register_backend(*backend)
        self._summing: Summing | None = None
        if size > 1:
            # Sums run in a thread of their own, so ranks need a separate group to agree on them.
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
        if not self._is_sum("all_reduce", tensors, opts.reduceOp):
            return _by_gloo("allreduce")(self, tensors, opts)
        return _Sum(*self._all_reduce(tensors, opts.reduceOp, tensors))

    def allreduce_coalesced(self, tensors: list[Any], opts: Any = None) -> Any:
        opts = dist.AllreduceCoalescedOptions() if opts is None else opts
        if not self._is_sum("all_reduce", tensors, opts.reduceOp):
            return _by_gloo("allreduce_coalesced")(self, tensors, opts)
        return _Sum(*self._all_reduce(tensors, opts.reduceOp, tensors))

    def reduce_scatter(self, outputs: list[Any], inputs: list[list[Any]], opts: Any = None) -> Any:
        opts = dist.ReduceScatterOptions() if opts is None else opts
        if not self._is_sum("reduce_scatter", inputs[0], opts.reduceOp):
            return _by_gloo("reduce_scatter")(self, outputs, inputs, opts)
        joined = torch.cat([each.reshape(-1) for each in inputs[0]])
        whole = staging.on_host("reduce_scatter", joined)
        parts = [each.numel() for each in inputs[0]]
        return self._scatter(outputs, [whole], [parts], opts.reduceOp)

    def _reduce_scatter_base(self, output: Any, whole: Any, opts: Any = None) -> Any:
        opts = dist.ReduceScatterOptions() if opts is None else opts
        if not self._is_sum("reduce_scatter", [whole], opts.reduceOp):
            return _by_gloo("_reduce_scatter_base")(self, output, whole, opts)
        return self._scatter_equally([output], [whole], opts.reduceOp)

    reduce_scatter_single = _reduce_scatter_base

    def reduce_scatter_tensor_coalesced(
        self, outputs: list[Any], inputs: list[Any], opts: Any = None
    ) -> Any:
        opts = dist.ReduceScatterOptions() if opts is None else opts
        if not self._is_sum("reduce_scatter", inputs, opts.reduceOp):
            return _by_gloo("reduce_scatter_tensor_coalesced")(self, outputs, inputs, opts)
        return self._scatter_equally(outputs, inputs, opts.reduceOp)

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

    # In a subclass, PyTorch's own functions keep the GIL while they wait for the lock of gloo's
    # queue. The lock's holder may wait for the GIL to free a tensor. Names differ between versions
    # of PyTorch.
    allgather = _by_gloo("allgather")
    _allgather_base = _by_gloo("_allgather_base")
    all_gather_single = _by_gloo("all_gather_single")
    allgather_into_tensor_coalesced = _by_gloo("allgather_into_tensor_coalesced")
    all_gather_single_coalesced = _by_gloo("all_gather_single_coalesced")
    alltoall_base = _by_gloo("alltoall_base")
    all_to_all_single = _by_gloo("all_to_all_single")
    alltoall = _by_gloo("alltoall")
    broadcast = _by_gloo("broadcast")
    gather = _by_gloo("gather")
    recv = _by_gloo("recv")
    recv_anysource = _by_gloo("recv_anysource")
    reduce = _by_gloo("reduce")
    scatter = _by_gloo("scatter")
    send = _by_gloo("send")

    def barrier(self, opts: Any = None) -> Any:
        opts = dist.BarrierOptions() if opts is None else opts
        # PyTorch may name the GPU on which nccl would make it.
        opts.device_ids, opts.device = [], torch.device("cpu")
        return self._gloo.barrier(opts)

    def mean(self, tensor: Any) -> Any:
        """Replace ``tensor`` by its mean over the ranks; returns a future of it. Raises GroupError
        if switches cannot make it."""
        if self._summing is None:
            done = staging.future([tensor])
            done.set_result(tensor)
            return done
        if not self._is_sum("all_reduce", [tensor], dist.ReduceOp.AVG):
            raise GroupError(
                f"mean: found {tensor.dtype}, wanted torch.float32, whose means switches make;"
                " convert the tensor"
            )
        return self._all_reduce([tensor], dist.ReduceOp.AVG, tensor)[0]

    def _is_sum(self, what: str, tensors: list[Any], operation: Any) -> bool:
        """Whether switches make this reduction. Raises GroupError if they should make it but
        cannot."""
        if self._summing is None:
            return False
        for each in tensors:
            if each.layout != torch.strided:
                raise GroupError(f"{what}: found a tensor in {each.layout}, wanted a dense one")
        types = {each.dtype for each in tensors}
        is_sum = any(operation == each for each in _SUMS)
        if not is_sum or not any(each.is_floating_point or each.is_complex for each in types):
            return False
        for dtype in types - {torch.float32}:
            raise GroupError(
                f"{what}: found {dtype}, wanted torch.float32, whose sums switches make; convert"
                " the tensor, or sum it in a group of the backend gloo"
            )
        return True

    def _scatter_equally(self, outputs: list[Any], inputs: list[Any], operation: Any) -> Any:
        wholes = [staging.copied("reduce_scatter", each.reshape(-1)) for each in inputs]
        parts = [[each.numel()] * self.size() for each in outputs]
        return self._scatter(outputs, wholes, parts, operation)

    def _scatter(
        self, outputs: list[Any], wholes: list[Any], parts: list[list[int]], operation: Any
    ) -> Any:
        """Reduce-scatters: switches give all ranks the whole sums, and each keeps its parts."""

        def keep() -> None:
            for output, whole, sizes in zip(outputs, wholes, parts, strict=True):
                output.copy_(whole.split(sizes)[self.rank()].view_as(output))

        return _Sum(*self._started(wholes, operation, keep, outputs))

    def _all_reduce(
        self, tensors: list[Any], operation: Any, result: Any
    ) -> tuple[Any, list[BaseException]]:
        hosts = [staging.on_host("all_reduce", each) for each in tensors]

        def put_back() -> None:
            for tensor, host in zip(tensors, hosts, strict=True):
                staging.put_back(tensor, host)

        return self._started(hosts, operation, put_back, result)

    def _started(
        self, tensors: list[Any], operation: Any, then: Callable[[], None], result: Any
    ) -> tuple[Any, list[BaseException]]:
        """Start a sum of ``tensors``, which the CPU has, followed by ``then``. Returns a future of
        ``result``, and a list that gets the error, if any."""
        summing, ended = self._summing, staging.future(staging.flat(result))
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
            # Raised here, it is also the future's error for PyTorch's own code.
            if errors:
                raise errors[0]
            return result

        future = ended.then(found)
        summing.submit(order)
        return future, errors

    def _replace(self, values: Any, divisor: int) -> None:
        assert self._summing is not None
        # numpy cannot show a tensor whose sign is only marked, such as the imaginary part of a
        # conjugate.
        flat = values.resolve_neg().contiguous().reshape(-1)
        if values.numel():
            self._summing.sum(flat.numpy(), divisor)
        if flat.data_ptr() != values.data_ptr():  # a copy
            values.copy_(flat.view_as(values))


class _Sum(dist.Work):  # type: ignore[misc]
    """A sum that has been started."""

    def __init__(self, future: Any, errors: list[BaseException]) -> None:
        super().__init__()
        self._future, self._errors = future, errors

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the sum, at most for the group's timeout. Raises GroupError if it fails."""
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


class _Staged(dist.Work):  # type: ignore[misc]
    """A collective of gloo's on copies in host memory, of which ``hosts`` have what belongs into
    ``tensors``, on other devices, afterwards."""

    def __init__(self, work: Any, tensors: Sequence[Any] = (), hosts: Sequence[Any] = ()) -> None:
        super().__init__()
        self._work, self._pairs = work, list(zip(tensors, hosts, strict=True))

    def wait(self, *timeout: timedelta) -> bool:
        """Wait for the collective, and fill its tensors."""
        self._work.wait(*timeout)
        while self._pairs:
            staging.put_back(*self._pairs.pop())
        return True

    def is_completed(self) -> bool:
        return bool(self._work.is_completed())


def _agreement(group: Any) -> Callable[[Int32], None]:
    def agree(numbers: Int32) -> None:
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.MAX
        group.allreduce([torch.from_numpy(numbers)], options).wait()

    return agree
