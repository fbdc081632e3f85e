"""The native switch: a program compiled to C, running as a process of its own.

The process is spoken to over a Unix socket that is its standard input. It ends when the socket
closes, so that no switch outlives whoever started it, however that ended.
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
from testbed.switches.native.requests import REFUSALS, Requests

_PATIENCE = 30.0  # seconds that an answer may take


@dataclass(frozen=True)
class PortStatistics:
    """What has passed one port. A drop on receipt is the switch's fault (it was too slow), one
    on sending the network's: the port's queue was full."""

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
    endless: int  # clones and rounds refused, because one packet caused more than 4096


class NativeSwitch(Requests):
    """Runs one program. Implements ``Control``; a context manager that closes itself."""

    def __init__(self, json_path: Path, sanitize: bool = False) -> None:
        self._executable = build(json_path, sanitize)
        super().__init__(json_path)
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    @classmethod
    def offline(cls, json_path: Path, sanitize: bool = False, seed: int = 0) -> NativeSwitch:
        """A switch without interfaces, whose packets come and go through ``process``."""
        switch = cls(json_path, sanitize)
        switch._launch([], [], 0, 0, 0.0, seed)
        return switch

    def start(
        self,
        interfaces: Mapping[int, str],
        prefix_command: Sequence[str] = (),
        superframe: int = 1,
        ring_frames: int = 1024,
        gather: float = 100e-6,
        seed: int = 0,
    ) -> None:
        """Starts to switch packets between interfaces, by port number; returns when it does.

        ``prefix_command`` starts the process elsewhere, such as ``["mnexec", "-a", pid]`` in a
        network namespace. ``superframe`` is how many packets may come, or leave, as one frame
        that is left to hardware to cut (segmentation offload), and ``ring_frames`` how many frames
        a port holds until they are read.
        ``gather`` is for how many seconds packets may gather before the next look at the rings:
        the most that the switch adds to a packet's latency, and what keeps its processor time
        low, since a wake-up costs more than a packet.
        Raises ``ControlError`` with what the process said, if it does not start.
        """
        ports = [f"{port}={name}" for port, name in interfaces.items()]
        self._launch(prefix_command, ports, ring_frames, superframe, gather, seed)

    def _launch(
        self,
        prefix: Sequence[str],
        ports: list[str],
        frames: int,
        superframe: int,
        gather: float,
        seed: int,
    ) -> None:
        if self._process is not None:
            raise ControlError("the switch runs already")
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.settimeout(_PATIENCE)
        figures = [str(frames), str(superframe), str(int(gather * 1e9)), str(seed)]
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
            raise ControlError("the switch does not run")
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

    # Packets and figures

    def process(self, port: int, packet: bytes) -> list[tuple[int, bytes]]:
        """What leaves, and where, when ``packet`` comes in at ``port``, in the order of sending."""
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
            raise ControlError("the switch does not run")
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
        """Ends the process, and says what it left on standard error."""
        process = self._process
        if process is None or process.stderr is None:
            return "it does not run"
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1)
        if process.poll() is None:
            process.kill()
        words = process.stderr.read().decode(errors="replace").strip()
        self.close()
        return words or f"it ended with status {process.returncode}"
