"""A pytest plugin: endpoints use the engine that is built with sanitizers."""

from __future__ import annotations

from functools import partial

from testbed.hosts import aggregation

aggregation.load = partial(aggregation.load, sanitize=True)  # type: ignore[assignment]
