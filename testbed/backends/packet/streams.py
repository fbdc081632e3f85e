"""Carries messages between ranks in virtual time, over TCP connections of the C core."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from testbed.backends.packet.simulation import Simulation
from testbed.hosts.messages import Answer, Chunk, Message
from testbed.hosts.stream import PORT

_FIRST_EPHEMERAL = 32_768


class Streams:
    """The connections of one job's ranks. A connection is opened when a rank first sends.

    Args:
        simulation: where the connections are.
        hosts: the node of each rank.
        message_bytes: the size of a message on its stream.
    """

    def __init__(
        self,
        simulation: Simulation,
        hosts: Sequence[int],
        message_bytes: Callable[[Message], int],
    ) -> None:
        self._simulation, self._hosts = simulation, hosts
        self._message_bytes = message_bytes
        self._connections: dict[tuple[int, int], _Connection] = {}
        self._by_number: dict[int, _Connection] = {}
        self.inboxes: list[deque[tuple[int, Message]]] = [deque() for _ in hosts]
        self.woken: list[int] = []

    def send(self, source: int, to: int, message: Message) -> None:
        copy = _copied(message)
        if self._hosts[source] == self._hosts[to]:
            self.inboxes[to].append((source, copy))
            self.woken.append(to)
            return
        connection, simulation = self._connections.get((source, to)), self._simulation
        if connection is None:
            number = simulation.connect(
                self._hosts[source],
                self._hosts[to],
                _FIRST_EPHEMERAL + len(self._connections) % _FIRST_EPHEMERAL,
                PORT + to,
            )
            connection = _Connection(number, source, to)
            self._connections[source, to] = self._by_number[number] = connection
        connection.messages.append(copy)
        simulation.handle_message(self._hosts[source])
        simulation.write(connection.number, self._message_bytes(message))

    def to_wake(self) -> list[int]:
        """The ranks to which others on their own host have sent since the last call."""
        woken, self.woken = self.woken, []
        return woken

    def owns(self, number: int) -> bool:
        return number in self._by_number

    def ends(self, number: int) -> tuple[int, int]:
        """The ranks that a connection joins: its source and its destination."""
        connection = self._by_number[number]
        return connection.source, connection.to

    def deliver(self, number: int) -> None:
        """Deliver the first of the messages that have arrived."""
        self.inboxes[self._by_number[number].to].append(self.take(number))

    def take(self, number: int) -> tuple[int, Message]:
        """Take the first of the messages that have arrived, with its source, instead of delivering
        it."""
        connection = self._by_number[number]
        return connection.source, connection.messages.popleft()

    def timeouts(self) -> int:
        """Retransmission timeouts of all connections."""
        return sum(self._simulation.tcp(number).timeouts for number in self._by_number)

    def retransmitted(self, source: int) -> int:
        """Segments that a rank has retransmitted."""
        return sum(
            self._simulation.tcp(each.number).retransmitted
            for each in self._connections.values()
            if each.source == source
        )


class _Connection:
    __slots__ = ("messages", "number", "source", "to")

    def __init__(self, number: int, source: int, to: int) -> None:
        self.number, self.source, self.to = number, source, to
        self.messages: deque[Message] = deque()  # sent and not yet delivered


def _copied(message: Message) -> Message:
    if isinstance(message, Chunk):
        unit, chunk, values = message
        return Chunk(unit, chunk, values.copy())
    if isinstance(message, Answer):
        return message._replace(values=message.values.copy(), counts=tuple(message.counts))
    return message
