"""Messages over kernel TCP between the ranks of a job."""

from __future__ import annotations

import selectors
import socket
import struct
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from testbed import wire
from testbed.hosts.messages import HEADER, Message, decode, encode

PORT = wire.CHUNKS_PORT
"""Where rank 0 listens; rank r listens r ports above it, because ranks may share a host."""

_WAKE_BYTES = 64 * 1024
_GREETING = struct.Struct("!I")


class PeerLost(Exception):
    """A peer closed its connection during the job."""


@dataclass
class _Outgoing:
    socket: socket.socket
    queue: deque[memoryview] = field(default_factory=deque)


@dataclass
class _Incoming:
    socket: socket.socket
    source: int | None = None
    wanted: int = _GREETING.size
    filled: int = 0
    buffer: bytearray = field(default_factory=lambda: bytearray(_GREETING.size))
    header: tuple[int, int, int] | None = None  # unit, kind, chunk

    def want(self, size: int) -> None:
        """The next ``size`` bytes belong together."""
        self.wanted, self.filled, self.buffer = size, 0, bytearray(size)


class Mesh:
    """One rank's TCP connections: one to each peer that it sends to, one from each that sends.

    ``addresses`` are the IP addresses of the ranks. Connections are made in two steps, so that
    all ranks listen before any connects.
    """

    def __init__(self, rank: int, addresses: Sequence[str]) -> None:
        self._rank, self._addresses = rank, addresses
        self._selector = selectors.DefaultSelector()
        self._out: dict[int, _Outgoing] = {}
        self._incoming: list[_Incoming] = []
        self._listener = socket.create_server(
            (addresses[rank], PORT + rank), backlog=len(addresses) + 8
        )
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)

    def fileno(self) -> int:
        """Readable (epoll of epoll) whenever :meth:`poll` has something to do."""
        return self._selector.fileno()

    def connect(self, peers: Iterable[int]) -> None:
        """Connect to each of ``peers``. OSError names the peer that does not answer."""
        for peer in peers:
            try:
                connection = socket.create_connection(
                    (self._addresses[peer], PORT + peer),
                    timeout=10,
                    source_address=(self._addresses[self._rank], 0),
                )
            except OSError as error:
                raise OSError(f"rank {peer} at {self._addresses[peer]}: {error}") from error
            connection.sendall(_GREETING.pack(self._rank))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setblocking(False)
            self._out[peer] = _Outgoing(connection)

    def send(self, to: int, message: Message) -> None:
        """Queue a copy of ``message`` for rank ``to``, and send what the connection accepts."""
        out = self._out[to]
        idle = not out.queue
        out.queue.append(memoryview(encode(message)))
        if idle:
            self._write(to, out)
            if out.queue:
                self._selector.register(out.socket, selectors.EVENT_WRITE, to)

    def poll(self) -> Iterator[tuple[int, Message]]:
        """Write what can be written; yield complete messages, each with its source."""
        for key, _ in self._selector.select(0):
            if key.fileobj is self._listener:
                self._accept()
            elif isinstance(key.data, _Incoming):
                yield from self._read(key.data)
            else:
                self._write(key.data, self._out[key.data])
                if not self._out[key.data].queue:
                    self._selector.unregister(key.fileobj)

    def flush(self) -> None:
        """Send everything queued, however long it takes: a peer may still wait for it."""
        for peer, out in self._out.items():
            out.socket.setblocking(True)
            self._write(peer, out)
            out.socket.setblocking(False)

    def close(self) -> None:
        for out in self._out.values():
            out.socket.close()
        for incoming in self._incoming:
            incoming.socket.close()
        self._listener.close()
        self._selector.close()

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        connection.setblocking(False)
        incoming = _Incoming(connection)
        self._incoming.append(incoming)
        self._selector.register(connection, selectors.EVENT_READ, incoming)

    def _write(self, peer: int, out: _Outgoing) -> None:
        try:
            while out.queue:
                sent = out.socket.send(out.queue[0])
                if sent < len(out.queue[0]):
                    out.queue[0] = out.queue[0][sent:]
                else:
                    out.queue.popleft()
        except BlockingIOError:
            pass
        except (ConnectionResetError, BrokenPipeError) as error:
            raise PeerLost(f"rank {peer} closed its connection") from error

    def _read(self, incoming: _Incoming) -> Iterator[tuple[int, Message]]:
        while True:
            try:
                view = memoryview(incoming.buffer)[incoming.filled :]
                received = incoming.socket.recv_into(view)
            except BlockingIOError:
                # A wake-up for every packet would take most of Python's time.
                missing = min(incoming.wanted - incoming.filled, _WAKE_BYTES)
                incoming.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, missing)
                return
            except ConnectionResetError:
                received = 0
            if received == 0:
                self._selector.unregister(incoming.socket)
                if incoming.filled or incoming.header:
                    raise PeerLost(f"rank {incoming.source} closed its connection within a chunk")
                return
            incoming.filled += received
            if incoming.filled < incoming.wanted:
                continue
            if incoming.source is None:
                incoming.source = _GREETING.unpack(incoming.buffer)[0]
            elif incoming.header is None:
                unit, kind, chunk, length = HEADER.unpack(incoming.buffer)
                if length:
                    incoming.header = unit, kind, chunk
                    incoming.want(length)
                    continue
                # A read of 0 bytes would look like the connection's end.
                yield incoming.source, decode(unit, kind, chunk, bytearray())
            else:
                yield incoming.source, decode(*incoming.header, incoming.buffer)
                incoming.header = None
            incoming.want(HEADER.size)
