"""The error of a valid experiment that cannot be deployed."""

from __future__ import annotations


class DeploymentError(Exception):
    """The experiment cannot be set up; the message says why and how to fix it."""
