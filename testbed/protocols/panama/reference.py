"""The reference of PANAMA's switch: SwitchML's."""

from __future__ import annotations

from testbed.protocols.switchml.reference import MODEL

__all__ = ["MODEL"]
