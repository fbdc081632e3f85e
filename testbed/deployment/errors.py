"""What may be wrong with a valid experiment."""

from __future__ import annotations


class DeploymentError(Exception):
    """What the experiment asks for cannot be set up; the message says why and what would do."""
