"""The JSON schema of experiment files, for editors.

ina-testbed schema > experiments/schema.json
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic_core import to_jsonable_python

from testbed.experiment.fabrics import KINDS
from testbed.experiment.fields import Model
from testbed.experiment.options import Takes
from testbed.experiment.schema import Compute, Emulation, Experiment, Job, Stragglers


def schema(systems: Mapping[str, Takes]) -> dict[str, Any]:
    """JSON schema (draft 2020-12) of an experiment file, with the options of ``systems``."""
    result = Experiment.model_json_schema()
    for model in (*KINDS.values(), Job, Compute, Stragglers, Emulation):
        _write_defaults(model, result["$defs"][model.__name__]["properties"])
    _discriminate(systems, result["$defs"])
    emulation = Emulation().model_dump(mode="json", exclude_none=True)
    result["properties"]["emulation"]["default"] = emulation
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **result,
        "title": "Experiment file of ina-testbed",
    }


def _write_defaults(model: type[Model], properties: dict[str, Any]) -> None:
    """Write defaults as in a file, with units; pydantic gives them as numbers."""
    defaults = {
        name: field.get_default(call_default_factory=True)
        for name, field in model.model_fields.items()
        if not field.is_required() and field.default is not None
    }
    written = model.model_construct(**defaults).model_dump(mode="json", include=set(defaults))
    for name in defaults:
        properties[name]["default"] = to_jsonable_python(written[name])


def _discriminate(systems: Mapping[str, Takes], definitions: dict[str, Any]) -> None:
    """Make a job's options depend on its system; without a system, any options are valid.

    Each system's name comes with its source, its published rules and our reading.
    """
    job = definitions["Job"]
    job["properties"]["system"]["oneOf"] = [
        {"const": name, "title": system.title, "description": _about(system)}
        for name, system in systems.items()
    ]
    job["allOf"] = []
    for name, system in systems.items():
        options = system.options.model_json_schema()
        _write_defaults(system.options, options.get("properties", {}))
        definitions[f"options-{name}"] = options | {"title": f"Options of {name}"}
        its = {"options": {"$ref": f"#/$defs/options-{name}"}}
        chosen = {"properties": {"system": {"const": name}}, "required": ["system"]}
        job["allOf"].append({"if": chosen, "then": {"properties": its}})


def _about(system: Takes) -> str:
    """A system's declarations, in paragraphs."""
    parts = [system.citation]
    for heading, rules in (("Published", system.published), ("Our reading", system.reading)):
        parts.append("\n".join([f"{heading}:", *(f"- {rule}" for rule in rules)]))
    return "\n\n".join(parts)


def text(systems: Mapping[str, Takes]) -> str:
    """The schema as text of the committed file."""
    return json.dumps(schema(systems), indent=2, ensure_ascii=False) + "\n"
