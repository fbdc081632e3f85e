"""What went over the links of a run in virtual time, in short, to find where two runs part."""

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
        every: there is a digest after so many packets each; a power of two.
        kept: these digests, 16 bits each, and as the last one that of all packets.
    """

    packets: int
    every: int
    kept: Sequence[int]

    def text(self) -> str:
        """The digests as base64, for `of`."""
        return base64.b64encode(struct.pack(f"<{len(self.kept)}H", *self.kept)).decode()

    @staticmethod
    def of(packets: int, every: int, text: str) -> Digests:
        """From a text of `text`; ValueError if it is none."""
        try:
            kept = [number for (number,) in struct.iter_unpack("<H", base64.b64decode(text))]
        except struct.error as error:
            raise ValueError(f"found digests {text!r}, wanted those of a run") from error
        return Digests(packets, every, kept)


def first_difference(base: Digests, new: Digests) -> tuple[int, int] | None:
    """The packets among which two runs part, first and last, counted from 1; None if they do not.

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
