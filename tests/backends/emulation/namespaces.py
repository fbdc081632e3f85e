"""Sockets inside the nodes of a network, used from the test's own process."""

from __future__ import annotations

import ctypes
import os
import socket
from concurrent.futures import ThreadPoolExecutor

from testbed.backends.emulation.network import Network

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def open_socket(network: Network, node: str, kind: socket.SocketKind) -> socket.socket:
    """An IPv4 socket in ``node``: a socket stays in the namespace in which it was opened."""

    def enter_and_open() -> socket.socket:
        descriptor = os.open(network.namespace(node), os.O_RDONLY)
        try:
            # Only this thread changes its namespace, and it ends with the call.
            if _libc.setns(descriptor, _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        finally:
            os.close(descriptor)
        return socket.socket(socket.AF_INET, kind)

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(enter_and_open).result()
