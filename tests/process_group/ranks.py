"""Ranks of a group, forked from one process: ``ranks.py SCENARIO WORLD FOLDER``.

Exits with 0 if every rank does. They meet in a file, so that no port is needed.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

import device
import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

import testbed.torch
from testbed.lifetime import die_with_parent
from testbed.protocols.events import Event
from testbed.switches.events import read as events_of
from testbed.workload.quantise import Factor, block_sum

PACKET = 1024
"""Values in a packet, without an experiment file."""


def drawn(rank: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(rank))


def everyone(world: int, *shape: int) -> np.ndarray:
    return np.stack([drawn(rank, *shape).numpy().reshape(-1) for rank in range(world)])


def tell(said: object) -> None:
    """Print a line in one write. An unbuffered print makes two, between which another rank's can
    come."""
    print(f"{said}\n", end="", flush=True)


def refused(call, *arguments, **named) -> str:
    """The message of the GroupError that ``call`` raises."""
    try:
        found = call(*arguments, **named)
        if found is not None:
            found.wait()
    except RuntimeError as error:
        return str(error)
    raise AssertionError("nothing was refused")


def collectives(rank: int, world: int) -> None:
    dist.init_process_group("ina")
    assert dist.get_backend() == "ina"
    for size in (1, 7, PACKET - 1, PACKET, 3 * PACKET + 5, 700 * PACKET):
        values = drawn(rank, size)
        dist.all_reduce(values)
        assert np.array_equal(values.numpy(), block_sum(everyone(world, size), PACKET))
    mean = drawn(rank, 5)
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    torch.testing.assert_close(mean, torch.from_numpy(everyone(world, 5).mean(axis=0)))
    columns = drawn(rank, 6, 4)
    dist.all_reduce(columns[:, 1])  # not contiguous
    own = np.stack([drawn(r, 6, 4).numpy()[:, 1] for r in range(world)])
    assert np.array_equal(columns[:, 1].numpy(), block_sum(own, PACKET))
    assert np.array_equal(columns[:, 0].numpy(), drawn(rank, 6, 4).numpy()[:, 0])
    negative = torch.full((3,), rank + 1.0)
    dist.all_reduce(torch._neg_view(negative))
    assert negative.tolist() == [sum(range(1, world + 1))] * 3
    imaginary = torch.full((3,), 2j, dtype=torch.complex64)
    dist.all_reduce(imaginary.conj().imag)
    assert imaginary.tolist() == [2j * world] * 3
    zeros = torch.zeros(10)
    dist.all_reduce(zeros)
    assert not zeros.any()

    works = [dist.all_reduce(each, async_op=True) for each in (drawn(rank, 9), torch.ones(4) * 2)]
    for work in works:
        work.wait()
    part = torch.empty(8)
    # Its name differs between versions of PyTorch.
    scatter = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
    scatter(part, drawn(rank, 8 * world))
    whole = block_sum(everyone(world, 8 * world), PACKET)
    assert np.array_equal(part.numpy(), whole[8 * rank : 8 * (rank + 1)])
    dist.reduce_scatter(part, list(drawn(rank, 8 * world).split(8)))
    assert np.array_equal(part.numpy(), whole[8 * rank : 8 * (rank + 1)])
    together = [drawn(rank, 9), drawn(rank, 2 * PACKET)]
    coalesced(*(partial(dist.all_reduce, each) for each in together)).wait()
    for each in together:
        assert np.array_equal(each.numpy(), block_sum(everyone(world, len(each)), PACKET))
    part.zero_()
    coalesced(lambda: scatter(part, drawn(rank, 8 * world))).wait()
    assert np.array_equal(part.numpy(), whole[8 * rank : 8 * (rank + 1)])

    # Through gloo
    number = torch.tensor([rank, 2])
    dist.all_reduce(number)
    assert number.tolist() == [sum(range(world)), 2 * world]
    largest = torch.tensor([float(rank)])
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    assert largest.item() == world - 1
    told = torch.full((3,), float(rank))
    dist.broadcast(told, 1)
    assert told.tolist() == [1.0] * 3
    gathered = [torch.empty(2) for _ in range(world)]
    dist.all_gather(gathered, torch.full((2,), float(rank)))
    assert [each[0].item() for each in gathered] == list(range(world))
    objects = [None] * world
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": each} for each in range(world)]
    everywhere = torch.empty(2 * world)
    own = torch.full((2,), float(rank))
    coalesced(lambda: dist.all_gather_into_tensor(everywhere, own)).wait()
    assert everywhere.tolist() == [float(each) for each in range(world) for _ in range(2)]
    numbers = torch.arange(world)
    coalesced(lambda: scatter(number[:1], numbers)).wait()
    assert number[0] == world * rank
    sent = dist.isend(torch.full((2,), float(rank)), (rank + 1) % world)
    dist.recv(own, (rank - 1) % world)
    sent.wait()
    assert own.tolist() == [float((rank - 1) % world)] * 2
    dist.barrier()

    if rank == 0:
        fabric = dist.group.WORLD._summing._fabric
        (switch,) = fabric.switches.values()
        assert events_of(switch, 0)[Event.COMPLETED] > 700, "no switch has summed"
    assert "found torch.float64, wanted torch.float32" in refused(
        dist.all_reduce, torch.ones(2, dtype=torch.float64)
    )
    for call in (dist.group.WORLD.mean, partial(dist.broadcast, src=0)):
        said = refused(call, torch.ones(2, device="meta"))
        assert "found a tensor on meta, whose values cannot be copied to the host" in said
        assert "\n" not in said
    assert "mean: found torch.int64, wanted torch.float32" in refused(
        dist.group.WORLD.mean, torch.tensor([rank, 2])
    )
    assert "found a tensor in torch.sparse_coo, wanted a dense one" in refused(
        dist.all_reduce, torch.ones(2).to_sparse()
    )
    with_integers = [torch.ones(2), torch.ones(2, dtype=torch.int32)]
    assert "found torch.int32, wanted torch.float32" in refused(
        dist.group.WORLD.allreduce_coalesced, with_integers
    )
    wrong = torch.tensor([1.0, float("nan") if rank == 1 else 0.0])
    assert "found inf or nan" in refused(dist.all_reduce, wrong)
    assert "failed before: all_reduce: found inf" in refused(dist.all_reduce, torch.ones(2))
    dist.destroy_process_group()


def coalesced(*calls):
    """The work of collectives that PyTorch hands over together."""
    with dist._coalescing_manager(async_ops=True) as manager:
        for call in calls:
            call()
    return manager


def needs_the_gil(rank: int, world: int) -> None:
    """Gloo's thread needs it to free tensors while collectives are started."""
    dist.init_process_group("ina")
    sys.setswitchinterval(1000)  # seconds: nobody gives the GIL away before it waits
    whole, part = torch.empty(2 * world), torch.empty(2)
    starts = (
        lambda: dist.all_gather(list(whole.split(2)), part, async_op=True),
        lambda: dist.all_gather_into_tensor(whole, part, async_op=True),
        lambda: coalesced(lambda: dist.all_gather_into_tensor(whole, part)),
        lambda: coalesced(lambda: dist.all_reduce(part)),
        lambda: coalesced(lambda: dist.reduce_scatter_tensor(part, whole)),
        lambda: dist.all_to_all_single(torch.empty(2 * world), whole, async_op=True),
        lambda: dist.barrier(async_op=True),
        lambda: dist.broadcast(part, 0, async_op=True),
    )
    for start in starts:
        for _ in range(200):
            dist.broadcast(torch.ones(1), 0, async_op=True)
            start().wait()
    dist.destroy_process_group()


def model() -> torch.nn.Module:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(40, 300),
        torch.nn.Tanh(),
        torch.nn.Linear(300, 300),
        torch.nn.Linear(300, 3),
    )


def trained(wrapped: torch.nn.Module, rank: int) -> list[np.ndarray]:
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1, momentum=0.9)
    place = next(wrapped.parameters()).device
    for step in range(4):
        optimizer.zero_grad()
        wrapped(drawn(100 * step + rank, 16, 40).to(place)).square().mean().backward()
        optimizer.step()
    return [each.detach().cpu().numpy().copy() for each in wrapped.parameters()]


def summed_locally(group, bucket):
    """Each rank has all ranks' gradients, and sums them on its own in fixed point."""
    own = bucket.buffer() / dist.get_world_size()
    every = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(every, own, group=group)
    found = torch.futures.Future()
    values = np.stack([each.numpy() for each in every])
    found.set_result(torch.from_numpy(block_sum(values, PACKET)))
    return found


def training(rank: int, world: int) -> None:
    dist.init_process_group("ina")
    gloo = dist.new_group(backend="gloo")
    # Several buckets, which are rebuilt after the first iteration.
    buckets = {"bucket_cap_mb": 0.2}
    through_switches = trained(DistributedDataParallel(model(), **buckets), rank)
    reference = DistributedDataParallel(model(), process_group=gloo, **buckets)
    reference.register_comm_hook(gloo, summed_locally)
    wanted = trained(reference, rank)
    hooked = DistributedDataParallel(model(), process_group=gloo, **buckets)
    hooked.register_comm_hook(dist.new_group(backend="ina"), testbed.torch.hook)
    by_hook = trained(hooked, rank)
    for found, also, right in zip(through_switches, by_hook, wanted, strict=True):
        assert np.array_equal(found, right)
        assert np.array_equal(also, right)
    dist.destroy_process_group()


def callbacks(rank: int, world: int) -> None:
    """Callbacks of a sum's future that sum, while the next sum already waits."""
    dist.init_process_group("ina")
    inner = drawn(rank, 9)

    def sum_again(_: object) -> None:
        dist.all_reduce(inner)
        dist.all_reduce(inner, async_op=True).get_future().wait()

    large, last = drawn(rank, 700 * PACKET), drawn(rank, 5)
    done = dist.all_reduce(large, async_op=True).get_future().then(sum_again)
    dist.all_reduce(last)
    done.wait()
    once = block_sum(everyone(world, 9), PACKET)
    assert np.array_equal(inner.numpy(), block_sum(np.stack([once] * world), PACKET))
    for found in (large, last):
        assert np.array_equal(found.numpy(), block_sum(everyone(world, len(found)), PACKET))

    buckets = {"bucket_cap_mb": 0.2}  # several
    hooked = DistributedDataParallel(model(), **buckets)
    hooked.register_comm_hook(powerSGD_hook.PowerSGDState(None, 2, 2), powerSGD_hook.powerSGD_hook)
    parameters = trained(hooked, rank)
    assert not np.array_equal(parameters[0], model()[0].weight.detach().numpy())
    for found in parameters:
        first = torch.from_numpy(found.copy())
        dist.broadcast(first, 0)
        assert np.array_equal(found, first.numpy())
    dist.destroy_process_group()


def destroyed(rank: int, world: int) -> None:
    """Sums in a group that has been destroyed."""
    dist.init_process_group("ina")
    group = dist.new_group(backend="ina")
    dist.all_reduce(torch.ones(3), group=group)
    dist.destroy_process_group(group)
    assert "found a group that is closed" in refused(group.allreduce, [torch.ones(3)])
    assert "found a group that is closed" in refused(group.mean, torch.ones(3))
    try:
        dist.all_reduce(torch.ones(3), group=group)
        raise AssertionError("nothing was refused")
    except (RuntimeError, ValueError) as error:
        # For an error in such a group PyTorch raises one of its own, and keeps ours as its context.
        found = error if isinstance(error, RuntimeError) else error.__context__
        assert "found a group that is closed" in str(found)
    still = torch.ones(3)
    dist.all_reduce(still)
    assert still.tolist() == [float(world)] * 3
    dist.destroy_process_group()


def on_a_device(rank: int, world: int) -> None:
    """Tensors whose memory the host cannot use."""
    counters = device.load(Path(os.environ["DEVICE"]))
    dist.init_process_group("ina")
    # The caller's stream waits for the future, as for those of PyTorch's own backends.
    future = dist.group.WORLD.mean(drawn(rank, 3000).to(device.NAME))
    before = counters.blocked()
    future.wait()
    assert counters.blocked() > before
    before = counters.blocked()
    dist.all_reduce(torch.ones(1).to(device.NAME), async_op=True).wait()
    assert counters.blocked() > before

    _collectives(device.NAME, rank, world)
    buckets = {"bucket_cap_mb": 0.2}
    wanted = trained(DistributedDataParallel(model(), **buckets), rank)
    for found in _trained_on(device.NAME, rank):
        for here, right in zip(found, wanted, strict=True):
            assert np.array_equal(here, right)
    dist.destroy_process_group()


def on_cuda(rank: int, world: int) -> None:
    """A GPU that all ranks share. Sums are exact there, too; what it computes is not the CPU's."""
    dist.init_process_group("ina")
    _collectives("cuda", rank, world)
    # The GPU may still compute what is summed, and the result is used at once.
    large = torch.full((1 << 22,), float(rank + 1), device="cuda")
    for _ in range(20):
        large = large * 2 - large
    dist.all_reduce(large)
    assert (large * 2).sum().item() == 2 * sum(range(1, world + 1)) * len(large)
    wanted = trained(DistributedDataParallel(model(), bucket_cap_mb=0.2), rank)
    for found in _trained_on("cuda", rank):
        for here, right in zip(found, wanted, strict=True):
            np.testing.assert_allclose(here, right, rtol=1e-3, atol=1e-5)
    dist.destroy_process_group()


def _trained_on(place: str, rank: int) -> list[list[np.ndarray]]:
    """Parameters after training on a device, with DDP and with the hook."""
    buckets = {"bucket_cap_mb": 0.2}
    found = trained(DistributedDataParallel(model().to(place), **buckets), rank)
    hooked = DistributedDataParallel(model().to(place), **buckets)
    hooked.register_comm_hook(dist.group.WORLD, testbed.torch.hook)
    return [found, trained(hooked, rank)]


def _collectives(place: str, rank: int, world: int) -> None:
    def there(values) -> torch.Tensor:
        return torch.as_tensor(values).to(place)

    values = there(drawn(rank, 3000))
    dist.all_reduce(values)
    assert values.device.type == place
    whole = block_sum(everyone(world, 3000), PACKET)
    assert np.array_equal(values.cpu().numpy(), whole)
    columns = there(drawn(rank, 6, 4))
    dist.all_reduce(columns[:, 1])  # not contiguous
    own = np.stack([drawn(r, 6, 4).numpy()[:, 1] for r in range(world)])
    assert np.array_equal(columns.cpu()[:, 1].numpy(), block_sum(own, PACKET))
    assert np.array_equal(columns.cpu()[:, 0].numpy(), drawn(rank, 6, 4).numpy()[:, 0])

    mean = dist.group.WORLD.mean(there(drawn(rank, 3000))).wait()
    torch.testing.assert_close(mean.cpu(), torch.from_numpy(whole / world))
    scatter = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
    part, mine = there(torch.empty(3000 // world)), slice(3000 // world * rank, None)
    scatter(part, there(drawn(rank, 3000)))
    assert np.array_equal(part.cpu().numpy(), whole[mine][: len(part)])
    part.zero_()
    dist.reduce_scatter(part, list(there(drawn(rank, 3000)).split(len(part))))
    assert np.array_equal(part.cpu().numpy(), whole[mine][: len(part)])
    together = [there(drawn(rank, 9)), drawn(rank, 5)]  # on both devices
    dist.group.WORLD.allreduce_coalesced(together).wait()
    for each in together:
        assert np.array_equal(each.cpu().numpy(), block_sum(everyone(world, len(each)), PACKET))

    # Through gloo
    own, ranks = there([float(rank)] * 2), [float(each) for each in range(world)]
    number = there([rank, 2])
    dist.all_reduce(number)
    assert number.tolist() == [sum(range(world)), 2 * world]
    largest = own.clone()
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    assert largest.tolist() == [world - 1.0] * 2
    told = own.clone()
    dist.broadcast(told, 1)
    assert told.tolist() == [1.0] * 2
    gathered = [torch.empty_like(own) for _ in ranks]
    dist.all_gather(gathered, own)
    assert [each.tolist() for each in gathered] == [[each] * 2 for each in ranks]
    everywhere = there(torch.empty(2 * world))
    dist.all_gather_into_tensor(everywhere, own)
    assert everywhere.tolist() == [each for each in ranks for _ in range(2)]
    swapped = there(torch.empty(world))
    dist.all_to_all_single(swapped, there([float(rank)] * world))
    assert swapped.tolist() == ranks
    at_last = [torch.empty_like(own) for _ in ranks] if rank == world - 1 else None
    dist.gather(own, at_last, world - 1)
    dist.scatter(told, at_last, world - 1)
    assert told.tolist() == own.tolist()
    dist.reduce(number, 0)
    assert rank or number.tolist() == [world * sum(range(world)), 2 * world**2]
    sent = dist.isend(own, (rank + 1) % world)
    dist.recv(told, (rank - 1) % world)
    sent.wait()
    assert told.tolist() == [float((rank - 1) % world)] * 2
    objects = [None] * world
    dist.all_gather_object(objects, rank)
    assert objects == list(range(world))
    dist.barrier(device_ids=[0])


def of_an_experiment(rank: int, world: int) -> None:
    """Two racks, a server and one factor, as INA_TESTBED_EXPERIMENT says."""
    dist.init_process_group("ina")
    values, factor = drawn(rank, 5000), Factor(1e6)
    dist.all_reduce(values)
    whole = sum(factor.quantise(each).astype(np.int64) for each in everyone(world, 5000))
    assert np.array_equal(values.numpy(), factor.restore(whole.astype(float)).astype(np.float32))
    assert "take a smaller factor" in refused(dist.all_reduce, torch.full((2,), 3000.0))
    dist.destroy_process_group()


def refuses(rank: int, world: int) -> None:
    tell(refused(dist.init_process_group, "ina"))


def first_dies(rank: int, world: int) -> None:
    _dies(rank, 0)


def last_dies(rank: int, world: int) -> None:
    _dies(rank, world - 1)


def _dies(rank: int, victim: int) -> None:
    dist.init_process_group("ina")
    dist.all_reduce(torch.ones(3))
    if rank == victim:
        os.kill(os.getpid(), signal.SIGKILL)
    tell(refused(dist.all_reduce, torch.ones(3)))


def waits(rank: int, world: int) -> None:
    """Rank 0 does not call all_reduce again. All ranks print their process ids, for the test that
    kills them."""
    dist.init_process_group("ina")
    dist.all_reduce(torch.ones(3))
    tell(os.getpid())
    if rank:
        dist.all_reduce(torch.ones(3))
    while True:
        # Not signal.pause(): a signal just before it would wait for another one.
        time.sleep(0.1)


def main(scenario: str, world: int, folder: Path) -> int:
    torch.set_num_threads(1)
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    children, parent = [], os.getpid()
    for rank in range(world):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                die_with_parent(parent)
                meet(folder / "meeting", rank, world)
                globals()[scenario](rank, world)
                code = 0
            except BaseException:
                sys.excepthook(*sys.exc_info())
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        children.append(child)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    return int(any(statuses))


def meet(file: Path, rank: int, world: int) -> None:
    """Let scripts call ``init_process_group("ina")`` without other arguments, as under torchrun."""
    usual = dist.init_process_group

    def init(backend: str) -> None:
        usual(backend, init_method=f"file://{file}", rank=rank, world_size=world)

    dist.init_process_group = init


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
