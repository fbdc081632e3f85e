"""Experiments on all back ends, for `testbed.studies.ladder`."""

from __future__ import annotations

from testbed.experiment.schema import Experiment

BACKENDS = ("simulate", "packet", "emulate")


def on_all(experiment: Experiment) -> Experiment:
    """The same experiment with the back end swept, too. If links lose packets or anything fails,
    the simulator is left out, because it has no packets."""
    data = experiment.data()
    # Sparse values need whole packets. All other gradients take the same time in either kind.
    data["emulation"] = {**data.get("emulation", {}), "carried_values": "all"}
    sweep = data.setdefault("sweep", {})
    for part in ("product", "zip"):
        sweep.get(part, {}).pop("backend", None)
    is_impaired = experiment.emulation.is_impaired
    backends = [each for each in BACKENDS if not is_impaired or each != "simulate"]
    sweep["product"] = {"backend": backends, **sweep.get("product", {})}
    excluded = [
        {"backend": "simulate", path: value}
        for part in ("product", "zip")
        for path in ("emulation.loss", "emulation.duplication", "emulation.faults")
        for value in sweep.get(part, {}).get(path, ())
        if value
    ]
    if excluded and not is_impaired:
        sweep["exclude"] = [*sweep.get("exclude", ()), *excluded]
    return Experiment.model_validate(data)
