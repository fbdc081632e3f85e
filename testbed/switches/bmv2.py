"""The BMv2 target: p4lang's simple_switch, controlled through its own command line client.

simple_switch's Thrift server listens on every address of its namespace. The namespace of a P4
switch has no address but loopback's, so nothing else reaches it.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO

from testbed.lifetime import die_with_parent
from testbed.protocols.tables import Exact, Lpm, Match, Range, TableEntry, Ternary
from testbed.switches.control import ControlError, Replica

SWITCH, CLIENT = "simple_switch", "simple_switch_CLI"
THRIFT_PORT = 9090
_PROMPT = b"RuntimeCmd: "
_START_TIME = 20.0
_ANSWER_TIME = 20.0
_REFUSALS = re.compile(r"^(Error|Invalid|Unknown|\*\*\*|Traceback)", re.MULTILINE)


def _begin(parent: int) -> None:
    """Make the process a batch process. simple_switch passes each packet through four threads; as
    batch threads they do not preempt one another, and handle more packets at a time
    (p4/PERFORMANCE.md)."""
    die_with_parent(parent)
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def installed() -> bool:
    """Whether simple_switch and its client are installed."""
    return shutil.which(SWITCH) is not None and shutil.which(CLIENT) is not None


class Bmv2Switch:
    """A simple_switch process running the compiled program at ``program``.

    ``log`` is the file for its output, which is short: packets are not logged.
    """

    cuts_superframes = False

    def __init__(self, program: Path, log: Path) -> None:
        self._program, self._log = program, log
        self._switch: subprocess.Popen[bytes] | None = None
        self._client: subprocess.Popen[bytes] | None = None
        self._known_groups: set[int] = set()

    def start(
        self,
        interfaces: Mapping[int, str],
        prefix_command: Sequence[str] = (),
        superframe: int = 1,
    ) -> None:
        """Run on ``interfaces`` (port to name); return once it answers. Raises ControlError if it
        does not."""
        if superframe > 1:
            raise ControlError("simple_switch takes packets one by one")
        ports = [f"-i{port}@{name}" for port, name in interfaces.items()]
        self._known_groups.clear()
        with self._log.open("wb") as log:
            self._switch = subprocess.Popen(
                [
                    *prefix_command,
                    *(SWITCH, "--thrift-port", str(THRIFT_PORT)),
                    # The default is a file in /tmp, shared by all switches of a machine.
                    *("--notifications-addr", f"tcp://127.0.0.1:{THRIFT_PORT + 1}"),
                    *(*ports, str(self._program)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=partial(_begin, os.getpid()),
            )
        deadline = time.monotonic() + _START_TIME
        while True:
            try:
                self._client = self._connect(prefix_command)
                self._answer(deadline)
                return
            except ControlError as error:
                if self._client is not None:
                    _end(self._client)
                if (reason := self.died()) is not None:
                    raise ControlError(f"simple_switch {reason}") from None
                if time.monotonic() > deadline:
                    raise ControlError(f"simple_switch does not answer: {error}") from None

    def insert(self, entry: TableEntry) -> None:
        match = " ".join(_match(part) for part in entry.match)
        priority = (
            f" {entry.priority}"
            if any(isinstance(part, (Ternary, Range)) for part in entry.match)
            else ""
        )
        params = " ".join(str(param) for param in entry.params)
        self._say(f"table_add {entry.table} {entry.action} {match} => {params}{priority}")

    def set_default(self, table: str, action: str, params: Sequence[int] = ()) -> None:
        self._say(" ".join(["table_set_default", table, action, *map(str, params)]))

    def multicast_group(self, group: int, replicas: Sequence[Replica]) -> None:
        if group in self._known_groups:
            self._say(f"mc_mgrp_destroy {group}")
        self._say(f"mc_mgrp_create {group}")
        self._known_groups.add(group)
        for replica in replicas:
            answer = self._say(f"mc_node_create {replica.rid} {replica.port}")
            handle = re.search(r"handle (\d+)", answer)
            if handle is None:
                raise ControlError(f"mc_node_create: {answer}")
            self._say(f"mc_node_associate {group} {handle[1]}")

    def mirror_session(
        self, session: int, *, port: int | None = None, group: int | None = None
    ) -> None:
        if (port is None) == (group is None):
            raise ControlError(f"mirror session {session}: expected a port or a multicast group")
        verb, to = ("mirroring_add", port) if group is None else ("mirroring_add_mc", group)
        self._say(f"{verb} {session} {to}")

    def read_register(self, name: str, index: int) -> int:
        answer = self._say(f"register_read {name} {index}")
        value = re.search(r"=\s*(-?\d+)", answer)
        if value is None:
            raise ControlError(f"register_read {name} {index}: {answer}")
        return int(value[1])

    def write_register(self, name: str, index: int, value: int) -> None:
        self._say(f"register_write {name} {index} {value}")

    def reset_register(self, name: str) -> None:
        self._say(f"register_reset {name}")

    def read_counter(self, name: str, index: int) -> tuple[int, int]:
        answer = self._say(f"counter_read {name} {index}")
        count = re.search(r"\((\d+) bytes, (\d+) packets\)", answer)
        if count is None:
            raise ControlError(f"counter_read {name} {index}: {answer}")
        return int(count[2]), int(count[1])

    def meter_rates(
        self, name: str, index: int, committed: tuple[float, int], peak: tuple[float, int]
    ) -> None:
        rates = " ".join(f"{rate / 1e6:.12f}:{burst}" for rate, burst in (committed, peak))
        self._say(f"meter_set_rates {name} {index} {rates}")

    def lost(self) -> int:
        """0: simple_switch does not report drops between a port and the program."""
        return 0

    @property
    def pid(self) -> int:
        if self._switch is None:
            raise ControlError("simple_switch is not running")
        return self._switch.pid

    def died(self) -> str | None:
        if self._switch is None or self._switch.poll() is None:
            return None
        said = self._log.read_text(errors="replace").strip().splitlines()[-3:]
        return f"ended with code {self._switch.returncode}: {' / '.join(said)}"

    def close(self) -> None:
        for process in (self._client, self._switch):
            if process is not None:
                _end(process)
        self._client = self._switch = None

    def _connect(self, prefix_command: Sequence[str]) -> subprocess.Popen[bytes]:
        # The client needs Thrift, which is installed for the system's Python, not for any other in
        # PATH.
        client = shutil.which(CLIENT) or CLIENT
        return subprocess.Popen(
            [*prefix_command, "/usr/bin/python3", client, "--thrift-port", str(THRIFT_PORT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=partial(die_with_parent, os.getpid()),
        )

    def _say(self, command: str) -> str:
        if self._client is None or self._client.stdin is None:
            raise ControlError("simple_switch is not running")
        try:
            self._client.stdin.write(command.encode() + b"\n")
            self._client.stdin.flush()
        except BrokenPipeError:
            raise ControlError(f"{command}: {self.died() or 'the client ended'}") from None
        answer = self._answer(time.monotonic() + _ANSWER_TIME)
        if _REFUSALS.search(answer):
            raise ControlError(f"{command}: {answer.strip()}")
        return answer

    def _answer(self, deadline: float) -> str:
        assert self._client is not None and self._client.stdout is not None
        return _read_to_prompt(self._client.stdout, deadline)


def _read_to_prompt(stream: IO[bytes], deadline: float) -> str:
    said = b""
    while not said.endswith(_PROMPT):
        ready, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
        chunk = os.read(stream.fileno(), 65536) if ready else b""
        if not chunk:
            raise ControlError(said.decode(errors="replace").strip() or "no answer")
        said += chunk
    return said.removesuffix(_PROMPT).decode(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    process.terminate()
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _match(part: Match) -> str:
    if isinstance(part, Exact):
        return str(part.value)
    if isinstance(part, Lpm):
        return f"{part.value}/{part.prefix}"
    if isinstance(part, Ternary):
        return f"{part.value}&&&{part.mask}"
    return f"{part.low}->{part.high}"
