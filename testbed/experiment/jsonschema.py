"""The JSON schema of experiment files, for editors.

python -m testbed.experiment.jsonschema > experiments/schema.json
"""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import to_jsonable_python

from testbed.experiment.fabrics import KINDS
from testbed.experiment.fields import Model
from testbed.experiment.schema import Compute, Emulation, Experiment, Job, Stragglers


def schema() -> dict[str, Any]:
    """JSON schema (draft 2020-12) of an experiment file."""
    result = Experiment.model_json_schema()
    for model in (*KINDS.values(), Job, Compute, Stragglers, Emulation):
        _write_defaults(model, result["$defs"][model.__name__]["properties"])
    emulation = Emulation().model_dump(mode="json", exclude_none=True)
    result["properties"]["emulation"]["default"] = emulation
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **result,
        "title": "Experiment file of ina-testbed",
    }


def _write_defaults(model: type[Model], properties: dict[str, Any]) -> None:
    """Write defaults as a file has them, with units (pydantic gives them as numbers)."""
    defaults = {
        name: field.get_default(call_default_factory=True)
        for name, field in model.model_fields.items()
        if not field.is_required() and field.default is not None
    }
    written = model.model_construct(**defaults).model_dump(mode="json", include=set(defaults))
    for name in defaults:
        properties[name]["default"] = to_jsonable_python(written[name])


def text() -> str:
    """The schema as the committed file has it."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(text(), end="")
