"""Experiments on both back ends, for `testbed.studies.ladder`."""

from __future__ import annotations

from testbed.experiment.schema import Experiment

BACKENDS = ("simulate", "emulate")


def on_both(experiment: Experiment) -> Experiment:
    """The same experiment, with the back end swept as well."""
    data = experiment.data()
    sweep = data.setdefault("sweep", {})
    for part in ("product", "zip"):
        sweep.get(part, {}).pop("backend", None)
    sweep["product"] = {"backend": list(BACKENDS), **sweep.get("product", {})}
    return Experiment.model_validate(data)
