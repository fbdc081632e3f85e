"""UDP in batches: one system call for many INA packets, no Python code per packet.

The kernel's structures for ``sendmmsg`` and ``recvmmsg`` are numpy arrays, so that a whole
batch is addressed by vector operations. Headers and values are gathered from where they lie.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from testbed.dataplane import wire

Headers = npt.NDArray[np.void]
Values = npt.NDArray[np.int32]

# struct iovec, struct msghdr and struct mmsghdr of 64-bit Linux.
_IOVEC = np.dtype([("base", "u8"), ("length", "u8")])
_MMSGHDR = np.dtype(
    {
        "names": ["name", "namelen", "iov", "iovlen", "control", "controllen", "flags", "length"],
        "formats": ["u8", "u4", "u8", "u8", "u8", "u8", "i4", "u4"],
        "offsets": [0, 8, 16, 24, 32, 40, 48, 56],
        "itemsize": 64,
    }
)
_ROW = wire.VALUES * 4
# UDP segmentation offload (Linux 4.18): the kernel cuts one long datagram into many.
_UDP_SEGMENT = 103
_SEGMENTS = 65_000 // wire.PACKET.itemsize
_MSG_DONTWAIT = 0x40
_BUFFER = 4 << 20

_libc = ctypes.CDLL(None, use_errno=True)


class BatchSocket:
    """A UDP socket for INA packets, non-blocking, at most ``batch`` packets a system call.

    ``burst`` is how many packets may leave back to back as one long datagram, whatever the
    link's rate; the kernel caps it at some 60.
    """

    def __init__(self, address: str, batch: int = 256, burst: int = 1) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            # The FORCE variants go beyond rmem_max; root has them, others take what they get.
            try:
                self.socket.setsockopt(
                    socket.SOL_SOCKET, {socket.SO_RCVBUF: 33, socket.SO_SNDBUF: 32}[option], _BUFFER
                )
            except PermissionError:
                self.socket.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
        try:
            self.socket.bind((address, wire.PORT))
        except OSError:
            self.socket.close()
            raise
        self.socket.setblocking(False)
        self._batch = batch
        self._rows = np.arange(batch, dtype=np.uint64)
        self._arrived = np.zeros(batch, wire.PACKET)
        self._receive_iov, self._receive_messages = _messages(batch, 1)
        self._receive_iov["base"][:, 0] = _address(self._arrived) + np.arange(batch) * (
            wire.PACKET.itemsize
        )
        self._receive_iov["length"] = wire.PACKET.itemsize
        self._receive_address = ctypes.c_void_p(_address(self._receive_messages))
        self._lengths = self._receive_messages["length"]
        self._send_iov, self._send_messages = _messages(batch, 2)
        self._send_iov["length"] = (wire.HEADER.itemsize, _ROW)
        self._names: dict[str, npt.NDArray[np.uint8]] = {}
        # Only the last of a run of segments may be shorter, and ours are all of one size.
        self.socket.setsockopt(socket.SOL_UDP, _UDP_SEGMENT, wire.PACKET.itemsize)
        self._segments = min(burst, _SEGMENTS)

    def fileno(self) -> int:
        return self.socket.fileno()

    def close(self) -> None:
        self.socket.close()

    def receive(self) -> npt.NDArray[np.void]:
        """The packets that are there, a view of shape (n,), dtype ``wire.PACKET``.

        It is overwritten by the next call. Datagrams of another size are left out.
        """
        count = _libc.recvmmsg(
            self.fileno(),
            self._receive_address,
            self._batch,
            _MSG_DONTWAIT,
            None,
        )
        if count < 0:
            _raise_unless_blocked()
            return self._arrived[:0]
        whole = self._lengths[:count] == wire.PACKET.itemsize
        arrived = self._arrived[:count]
        return arrived if whole.all() else arrived[whole]

    def send(self, headers: Headers, values: npt.NDArray[Any], to: str) -> int:
        """Send ``headers[i]`` with ``values[i]`` to host ``to``; return how many the kernel took.

        ``headers`` has shape (n,) and dtype ``wire.HEADER``; ``values`` has shape (n, 256) with
        contiguous rows of big-endian int32. Fewer than n means that the socket's buffer is full.
        """
        name = self._names.get(to)
        if name is None:
            name = self._names[to] = np.frombuffer(
                struct.pack("=H", socket.AF_INET)
                + struct.pack("!H", wire.PORT)
                + socket.inet_aton(to)
                + bytes(8),
                np.uint8,
            )
        sent = 0
        while sent < len(headers):
            count = min(self._batch, len(headers) - sent)
            iov = self._send_iov[:count]
            iov["base"][:, 0] = _address(headers[sent:]) + headers.strides[0] * self._rows[:count]
            iov["base"][:, 1] = _address(values[sent:]) + values.strides[0] * self._rows[:count]
            taken = self._send_messages_to(name, count)
            sent += taken
            if taken < count:
                break
        return sent

    def _send_messages_to(self, name: npt.NDArray[np.uint8], count: int) -> int:
        """Send the first ``count`` packets of the send vector, cut into long datagrams."""
        size = self._segments
        datagrams = -(-count // size)
        messages = self._send_messages[:datagrams]
        messages["name"] = _address(name)
        messages["namelen"] = len(name)
        messages["iov"] = _address(self._send_iov) + self._rows[:datagrams] * (
            size * self._send_iov.strides[0]
        )
        messages["iovlen"] = 2 * size
        messages["iovlen"][-1] = 2 * (count - (datagrams - 1) * size)
        taken = _libc.sendmmsg(
            self.fileno(), ctypes.c_void_p(_address(messages)), datagrams, _MSG_DONTWAIT
        )
        if taken >= 0:
            return min(int(taken) * size, count)
        if ctypes.get_errno() == errno.EIO and size > 1:
            # Before Linux 6.11 a device without checksum offload cannot do it.
            self._segments = 1
            self.socket.setsockopt(socket.SOL_UDP, _UDP_SEGMENT, 0)
            return self._send_messages_to(name, count)
        _raise_unless_blocked()
        return 0


def runs(index: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    """Cut ``index``, increasing but for at most one wrap-around, into runs of neighbours.

    A run's rows can be sent without a copy.
    """
    if index[-1] - index[0] == len(index) - 1:
        return [index]
    return np.split(index, np.flatnonzero(np.diff(index) != 1) + 1)


def _messages(batch: int, parts: int) -> tuple[npt.NDArray[np.void], npt.NDArray[np.void]]:
    iov = np.zeros((batch, parts), _IOVEC)
    messages = np.zeros(batch, _MMSGHDR)
    messages["iov"] = _address(iov) + np.arange(batch) * (parts * _IOVEC.itemsize)
    messages["iovlen"] = parts
    return iov, messages


def _address(array: npt.NDArray[Any]) -> int:
    return cast(int, array.__array_interface__["data"][0])


def _raise_unless_blocked() -> None:
    error = ctypes.get_errno()
    # ENOBUFS: the link's queue is full; to the sender that is the same as a full buffer.
    if error not in (errno.EAGAIN, errno.ENOBUFS):
        raise OSError(error, os.strerror(error))
