"""The error of a group that cannot sum."""

from __future__ import annotations


class GroupError(RuntimeError):
    """The group cannot sum; the message, one line, says what was found and what is wanted."""
