"""The cost of a fragment for an endpoint: members and a server, one process each, on loopback.

    .venv/bin/python benchmarks/endpoint.py [--fragments 200000] [--members 2] [--window 64]

Processor time includes the kernel's share of sending and receiving. In this all-reduce, a member
sends and receives one packet per fragment, and the server one per member.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from multiprocessing.connection import Connection

import numpy as np

from testbed import wire
from testbed.hosts.aggregation import Endpoint, Operation, Wake
from testbed.protocols.roles import Child, Member, Root
from testbed.protocols.switchml.protocol import PROTOCOL as SWITCHML

SERVER = "127.0.1.1"
CHUNK = 2000


def address(rank: int) -> str:
    return f"127.0.1.{rank + 2}"


def serve(arguments: argparse.Namespace, orders: Connection, burst: int) -> None:
    children = tuple(Child(address(rank), frozenset({rank})) for rank in range(arguments.members))
    with Endpoint(SERVER, burst=burst) as endpoint:
        endpoint.add(Root(1, SWITCHML, arguments.window, [0], children, serves=True))
        orders.send(None)
        begin = time.process_time()
        while Wake.OTHER not in endpoint.wait(other=orders.fileno()):
            pass
        orders.send((time.process_time() - begin) / (arguments.fragments * arguments.members))


def contribute(arguments: argparse.Namespace, results: Connection, rank: int, burst: int) -> None:
    values = np.zeros(CHUNK * wire.VALUES, np.int32)
    with Endpoint(address(rank), burst=burst) as endpoint:
        flow = endpoint.add(Member(1, SWITCHML, arguments.window, [0], rank, SERVER))
        begin, processor = time.monotonic(), time.process_time()
        for last in range(CHUNK, arguments.fragments + 1, CHUNK):
            endpoint.push(flow, Operation.ALL_REDUCE, values.ctypes.data, values.size)
            while endpoint.done(flow) < last:
                endpoint.wait()
        seconds = time.monotonic() - begin
        results.send((arguments.fragments / seconds, time.process_time() - processor))


def measure(arguments: argparse.Namespace, burst: int) -> str:
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(arguments, theirs, burst))
    server.start()
    ours.recv()
    pipes = [multiprocessing.Pipe(duplex=False) for _ in range(arguments.members)]
    members = [
        multiprocessing.Process(target=contribute, args=(arguments, end, rank, burst))
        for rank, (_, end) in enumerate(pipes)
    ]
    for member in members:
        member.start()
    seen = [results.recv() for results, _ in pipes]
    ours.send(None)
    served = ours.recv()
    for process in (*members, server):
        process.join()
    rate = min(rate for rate, _ in seen)
    member_s = max(processor for _, processor in seen) / arguments.fragments
    return f"{burst:5} {rate:12.0f} {member_s * 1e6:17.2f} {served * 1e6:22.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--fragments", type=int, default=200_000)
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--window", type=int, default=64)
    arguments = parser.parse_args()
    print("burst  fragments/s  member us/fragment  server us/fragment/member")
    for burst in (1, 8, 32):
        print(measure(arguments, burst))


if __name__ == "__main__":
    main()
