"""What keeps a group from summing."""

from __future__ import annotations


class GroupError(RuntimeError):
    """One line says what was found and what is wanted."""
