"""What carries a rank's messages in virtual time: TCP connections of the C core."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from testbed.backends.packet.simulation import Simulation
from testbed.hosts.messages import HEADER, Answer, Chunk, Message
from testbed.hosts.stream import PORT

_FIRST_EPHEMERAL = 32_768


class Streams:
    """The connections of one job's ranks. A connection is made when a rank first sends."""

    def __init__(self, simulation: Simulation, hosts: Sequence[int]) -> None:
        """``hosts``: the node of each rank."""
        self._simulation, self._hosts = simulation, hosts
        self._connections: dict[tuple[int, int], _Connection] = {}
        self._by_number: dict[int, _Connection] = {}
        self.inboxes: list[deque[tuple[int, Message]]] = [deque() for _ in hosts]
        self.woken: deque[int] = deque()

    def send(self, source: int, to: int, message: Message) -> None:
        copy = _copied(message)
        if self._hosts[source] == self._hosts[to]:
            self.inboxes[to].append((source, copy))
            self.woken.append(to)
            return
        if (source, to) not in self._connections:
            number = self._simulation.connect(
                self._hosts[source],
                self._hosts[to],
                _FIRST_EPHEMERAL + len(self._connections) % _FIRST_EPHEMERAL,
                PORT + to,
            )
            found = _Connection(number, source, to)
            self._connections[source, to] = self._by_number[number] = found
        connection, simulation = self._connections[source, to], self._simulation
        size = _size(message)
        connection.written += size
        connection.messages.append((connection.written, copy))
        if len(connection.messages) == 1:
            simulation.expect(connection.number, connection.written)
        simulation.write(connection.number, size)

    def owns(self, number: int) -> bool:
        return number in self._by_number

    def arrived(self, number: int) -> int:
        """Hand over what is whole of a connection's stream; the rank that it goes to."""
        connection = self._by_number[number]
        received = self._simulation.received(number)
        while connection.messages and connection.messages[0][0] <= received:
            message = connection.messages.popleft()[1]
            self.inboxes[connection.to].append((connection.source, message))
        if connection.messages:
            self._simulation.expect(number, connection.messages[0][0])
        return connection.to

    def retransmitted(self, source: int) -> int:
        """Segments that a rank sent again."""
        return sum(
            self._simulation.tcp(each.number).retransmitted
            for each in self._connections.values()
            if each.source == source
        )


class _Connection:
    __slots__ = ("messages", "number", "source", "to", "written")

    def __init__(self, number: int, source: int, to: int) -> None:
        self.number, self.source, self.to = number, source, to
        self.written = 0
        self.messages: deque[tuple[int, Message]] = deque()


def _size(message: Message) -> int:
    """Bytes of a message on its stream, as `testbed.hosts.messages` encodes it."""
    if isinstance(message, Chunk):
        return HEADER.size + message.values.nbytes
    if isinstance(message, Answer):
        return HEADER.size + message.values.nbytes + 4 * (1 + len(message.counts))
    return HEADER.size


def _copied(message: Message) -> Message:
    if isinstance(message, Answer):
        return message._replace(values=message.values.copy(), counts=tuple(message.counts))
    if isinstance(message, Chunk):
        return message._replace(values=message.values.copy())
    return message
