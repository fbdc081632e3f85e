"""The native switch: a program compiled to C, running as a process of its own.

The process is controlled over a Unix socket that is its standard input. It ends when the socket
closes, so that no switch outlives the process that started it.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from testbed.switches.control import ControlError
from testbed.switches.native.build import build
from testbed.switches.native.reader import read
from testbed.switches.native.requests import REFUSALS, Requests

_PATIENCE = 30.0  # seconds that an answer may take

_RING_FRAMES = 1024
"""How many unread frames a port holds."""

_GATHER_S = 100e-6
"""How many seconds packets may gather before the rings are read again. It is the most that the
switch adds to a packet's latency. It saves processor time, because a wake-up costs more than a
packet."""


@dataclass(frozen=True)
class PortStatistics:
    """Counts of one port's packets. A packet is dropped on receipt if the switch is too slow, and
    on sending if the port's queue is full."""

    rx_packets: int
    rx_bytes: int
    rx_drops: int
    tx_packets: int
    tx_bytes: int
    tx_drops: int


@dataclass(frozen=True)
class Statistics:
    ports: dict[int, PortStatistics]
    oversize: int  # frames too long for the ring, or superframes of a kind that cannot be cut
    no_port: int  # packets sent to a port that does not exist
    endless: int  # clones and passes refused, because one packet caused more than 4096


class NativeSwitch(Requests):
    """Runs one program. Implements ``Control``; a context manager that closes itself."""

    def __init__(self, json_path: Path, sanitize: bool = False) -> None:
        self._executable = build(json_path, sanitize)
        super().__init__(read(json_path))
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    @classmethod
    def offline(cls, json_path: Path, sanitize: bool = False) -> NativeSwitch:
        """A switch without interfaces, whose packets come and go through ``process``."""
        switch = cls(json_path, sanitize)
        switch._launch([], [], 0, 0, 0.0)
        return switch

    def start(
        self,
        interfaces: Mapping[int, str],
        prefix_command: Sequence[str] = (),
        superframe: int = 1,
    ) -> None:
        """Starts switching packets between ``interfaces`` (by port number), and returns once it
        does.

        ``prefix_command`` starts the process elsewhere, such as ``["mnexec", "-a", pid]`` in a
        network namespace. ``superframe`` is how many packets may arrive or leave as one frame that
        hardware would segment (segmentation offload). Raises ``ControlError`` with the process's
        output if it does not start.
        """
        ports = [f"{port}={name}" for port, name in interfaces.items()]
        self._launch(prefix_command, ports, _RING_FRAMES, superframe, _GATHER_S)

    def _launch(
        self,
        prefix: Sequence[str],
        ports: list[str],
        frames: int,
        superframe: int,
        gather: float,
    ) -> None:
        if self._process is not None:
            raise ControlError("the switch is already running")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.settimeout(_PATIENCE)
        figures = [str(frames), str(superframe), str(int(gather * 1e9)), "0"]  # the seed is 0
        command = [*prefix, str(self._executable), *figures, *ports]
        with theirs:
            self._process = subprocess.Popen(
                command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
        self._socket = ours
        self.statistics()

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ControlError("the switch is not running")
        return self._process.pid

    def close(self) -> None:
        """Stops the switch; may be called twice."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            process, self._process = self._process, None
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stderr is not None:
                process.stderr.close()

    def __enter__(self) -> NativeSwitch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Packets and counts

    def process(self, port: int, packet: bytes) -> list[tuple[int, bytes]]:
        """The packets that leave when ``packet`` arrives at ``port``, in sending order, each with
        its port."""
        answer = self._request(b"P" + struct.pack("=H", port) + packet)
        left: list[tuple[int, bytes]] = []
        at = 0
        while at < len(answer):
            out, size = struct.unpack_from("=II", answer, at)
            at += 8
            left.append((out, answer[at : at + size]))
            at += size
        return left

    def statistics(self) -> Statistics:
        answer = self._request(b"S")
        if not answer:
            return Statistics({}, 0, 0, 0)
        words = struct.unpack(f"={len(answer) // 8}Q", answer)
        ports = {words[i]: PortStatistics(*words[i + 1 : i + 7]) for i in range(3, len(words), 7)}
        return Statistics(ports, *words[:3])

    # The wire

    def _request(self, request: bytes, what: str = "") -> bytes:
        if self._socket is None:
            raise ControlError("the switch is not running")
        try:
            self._socket.sendall(struct.pack("=I", len(request)) + request)
            size, refusal = struct.unpack("=II", self._receive(8))
            answer = self._receive(size)
        except (OSError, EOFError) as error:
            raise ControlError(f"the switch does not answer: {self._last_words()}") from error
        if refusal:
            raise ControlError(f"{what}: {REFUSALS.get(refusal, refusal)}")
        return answer

    def _receive(self, size: int) -> bytes:
        assert self._socket is not None
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    def _last_words(self) -> str:
        """Ends the process; returns its standard error."""
        process = self._process
        if process is None or process.stderr is None:
            return "it is not running"
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1)
        if process.poll() is None:
            process.kill()
        words = process.stderr.read().decode(errors="replace").strip()
        self.close()
        return words or f"it ended with status {process.returncode}"
