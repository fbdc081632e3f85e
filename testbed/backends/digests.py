"""Digests of the packets on the links of a run in virtual time, to find where two runs diverge."""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Digests:
    """Digests of all packets so far, each by its time, link, bytes and addresses.

    Attributes:
        packets: how many packets were put on links.
        every: after each ``every`` packets there is a digest; a power of two.
        kept: these digests, 16 bits each; the last one is that of all packets.
    """

    packets: int
    every: int
    kept: Sequence[int]

    def text(self) -> str:
        """The digests as base64, for `of`."""
        return base64.b64encode(struct.pack(f"<{len(self.kept)}H", *self.kept)).decode()

    @staticmethod
    def of(packets: int, every: int, text: str) -> Digests:
        """The digests in a text that `text` made. Raises ValueError for any other text."""
        try:
            kept = [number for (number,) in struct.iter_unpack("<H", base64.b64decode(text))]
        except struct.error as error:
            raise ValueError(f"found digests {text!r}, wanted those of a run") from error
        return Digests(packets, every, kept)


def first_difference(base: Digests, new: Digests) -> tuple[int, int] | None:
    """The first and the last of the packets among which two runs diverge, counted from 1; None if
    they do not diverge.

    All packets before these are the same.
    """
    every = max(base.every, new.every)
    digests = [
        each.kept[every // each.every - 1 : each.packets // each.every : every // each.every]
        for each in (base, new)
    ]
    common = min(map(len, digests))
    for number, (was, now) in enumerate(zip(*digests, strict=False)):
        if was != now:
            return number * every + 1, (number + 1) * every
    if (base.packets, base.kept[-1]) == (new.packets, new.kept[-1]):
        return None
    return common * every + 1, max(base.packets, new.packets)
