"""The options of systems: each system, in a higher layer, defines its own model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from testbed.experiment.fields import Model
from testbed.experiment.findings import Finding, mistake, suggestion


class Options(Model):
    """The options that a job may give its system: fields with a default, a description of what is
    wanted, and an example.
    """

    def least_slots(self) -> int:
        """The slots that a switch must have for these options; 0 if they set no window."""
        return 0

    def ranks_jobs(self) -> tuple[str, ...]:
        """Those of the given options that rank jobs which share switch memory. They have no effect
        without other jobs, or without switches that sum."""
        return ()

    def draws_anew(self) -> bool:
        """Whether the plan depends on the seed of each repeat."""
        return False


class Takes(Protocol):
    """A system as experiments see it: its options, its servers, whether it is for sparse gradients,
    and what editors show about it."""

    @property
    def title(self) -> str:
        """Its name in figures and texts."""

    @property
    def citation(self) -> str:
        """Its source, with the venue."""

    @property
    def published(self) -> tuple[str, ...]:
        """The rules that are from the source."""

    @property
    def reading(self) -> tuple[str, ...]:
        """The rules that are our own reading."""

    @property
    def servers(self) -> tuple[int, int]:
        """The fewest and the most parameter servers."""

    @property
    def sparse(self) -> str:
        """The unit in which a density counts: packets or values; empty if it sends zeros like all
        values."""

    @property
    def options(self) -> type[Options]:
        """The model of its options."""


def check(system: str, model: type[Options], given: Mapping[str, Any]) -> Iterator[Finding]:
    """The errors in the options ``given`` to ``system``, each at its place among them."""
    try:
        model.model_validate(given)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            place = detail["loc"]
            if not place:  # the model's own check of several options
                yield Finding(place, str(detail.get("ctx", {}).get("error", detail["msg"])))
                continue
            name = str(place[0])
            if detail["type"] == "extra_forbidden":
                yield Finding(place, _unknown(system, model, name), at_key=True)
            elif detail["type"] == "value_error":
                yield Finding(place, str(detail["ctx"]["error"]))
            else:
                field = _field(model, name)
                yield Finding(place, mistake(name, field, detail["input"]))


def _field(model: type[Options], name: str) -> FieldInfo:
    """The field of an option, which may have an alias."""
    fields = model.model_fields
    return fields.get(name) or next(each for each in fields.values() if each.alias == name)


def _unknown(system: str, model: type[Options], name: str) -> str:
    names = list(model.model_fields)
    if not names:
        return f'found "{name}", but {system} takes no options; remove it'
    wanted = f"an option of {system} ({', '.join(names)})"
    return f'found "{name}", wanted {wanted}; {suggestion(name, names)}'
