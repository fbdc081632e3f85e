"""Experiments on all back ends, for `testbed.studies.ladder`."""

from __future__ import annotations

from typing import Any

from testbed.experiment.schema import Emulation, Experiment

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
    swept = experiment.sweep.values if experiment.sweep else {}
    is_impaired = _impairs(
        {
            name: value
            for name, value in data["emulation"].items()
            if f"emulation.{name}" not in swept
        }
    )
    backends = [each for each in BACKENDS if not is_impaired or each != "simulate"]
    sweep["product"] = {"backend": backends, **sweep.get("product", {})}
    excluded = [
        {"backend": "simulate", f"emulation.{name}": value}
        for name in ("loss", "duplication", "faults")
        for value in swept.get(f"emulation.{name}", ())
        if _impairs({name: value})
    ]
    if excluded and not is_impaired:
        sweep["exclude"] = [*sweep.get("exclude", ()), *excluded]
    return Experiment.model_validate(data)


def _impairs(emulation: dict[str, Any]) -> bool:
    return Emulation.model_validate(emulation).is_impaired
