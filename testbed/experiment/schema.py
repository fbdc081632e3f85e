"""What an experiment file may say, as pydantic models.

Values are those of the real cluster, in SI units (bit/s, bytes, seconds); ``emulation`` says how
they shrink to what the machine carries. In files and dumps rates, sizes and times are text with a
unit. Each field's description says what is wanted there and its example how to write it: both
serve the messages about bad input as well as the JSON schema.

What no single field can know (names that must exist, hosts that must suffice) is in ``checks``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic.config import JsonDict
from pydantic_core.core_schema import ValidationInfo

from testbed.experiment.fields import (
    Dilation,
    Ina,
    Name,
    Racks,
    Rate,
    Ratio,
    Scale,
    Servers,
    Size,
    Workers,
    shown,
    suggestion,
)

SCHEMA_VERSION = 1


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _count(description: str, example: int, least: int = 1, **more: Any) -> Any:
    whole = f"{description}, a whole number of at least {least}"
    return Field(ge=least, description=whole, examples=[example], **more)


class LeafSpine(_Model):
    """Leaves (ToRs) with hosts below them, every leaf linked to every spine.

    Hosts are named h0, h1, … rack by rack, ToRs t0, t1, …, spines s0, s1, ….
    """

    kind: Literal["leaf-spine"] = Field(
        description="the fabric's kind, leaf-spine", examples=["leaf-spine"]
    )
    spines: Annotated[int, _count("the number of spine switches", 2)]
    leaves: Annotated[int, _count("the number of leaf switches (ToRs)", 2)]
    hosts_per_leaf: Racks = Field(
        description="the hosts under each leaf, a whole number or a list with one for each leaf",
        examples=[5],
    )
    host_rate: Rate = Field(
        description="the rate of a host's link, each way, with its unit", examples=["10Gbit"]
    )
    fabric_rate: Rate | None = Field(
        default=None,
        description="the rate of a link between leaf and spine; without it as host_rate,"
        " or as oversubscription asks",
        examples=["10Gbit"],
    )
    oversubscription: Ratio | None = Field(
        default=None,
        description="what the hosts of the fullest rack can send to what its uplinks carry;"
        " instead of fabric_rate",
        examples=[2],
    )
    queue: Size = Field(
        default=256_000,
        description="the queue of every port, a size with its unit",
        examples=["256KB"],
    )
    ina: Ina = Field(
        default="all",
        description="the ToRs that aggregate: all, none, a list of ToRs or a fraction of them"
        " (fullest rack first)",
        examples=["all"],
    )
    slots: Annotated[int, _count("the aggregators in each INA ToR's memory", 4096)] = 4096

    @property
    def racks(self) -> tuple[int, ...]:
        """Hosts under each leaf, in order."""
        if isinstance(self.hosts_per_leaf, int):
            return (self.hosts_per_leaf,) * self.leaves
        return self.hosts_per_leaf

    @property
    def uplink_rate(self) -> float:
        """Rate of each link between leaf and spine, in bit/s."""
        if self.fabric_rate is not None:
            return self.fabric_rate
        if self.oversubscription is not None:
            return max(self.racks) * self.host_rate / (self.oversubscription * self.spines)
        return self.host_rate


# A second kind makes this Annotated[LeafSpine | FatTree, Field(discriminator="kind")].
Fabric = LeafSpine


class Job(_Model):
    """One training job: who synchronises what, and how."""

    system: str = Field(description="the name of a system", examples=["ring"])
    workload: str = Field(
        description="the name of a workload, or the path of a trace", examples=["resnet50"]
    )
    workers: Workers = Field(
        description="the number of workers, or a list of their hosts", examples=[8]
    )
    placement: Literal["packed", "spread"] = Field(
        default="packed",
        description="how counted workers and servers fill the racks: packed or spread",
        examples=["packed"],
    )
    servers: Servers = Field(
        default=1,
        description="the number of parameter servers, or a list of their hosts;"
        " systems without servers ignore it",
        examples=[1],
    )
    colocated: bool = Field(
        default=False,
        description="whether servers may sit on workers' hosts, true or false",
        examples=[True],
    )
    iterations: Annotated[int, _count("the iterations that are measured", 3)] = 3
    warmup: Annotated[int, _count("the iterations before those", 1, least=0)] = 1
    bucket: Size = Field(
        default=25_000_000,
        description="gradients synchronised together (PyTorch DDP's bucket_cap_mb),"
        " a size with its unit",
        examples=["25MB"],
    )
    first_bucket: Size = Field(
        default=1_000_000, description="the first bucket, a size with its unit", examples=["1MB"]
    )
    overlap: bool = Field(
        default=True,
        description="whether communication overlaps the backward pass, true or false",
        examples=[True],
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="a mapping of the system's own options", examples=[{}]
    )

    @field_validator("system", "workload")
    @classmethod
    def _known(cls, value: str, info: ValidationInfo) -> str:
        """The context may hold the known ``systems`` and ``workloads``."""
        assert info.field_name is not None
        names = (info.context or {}).get(f"{info.field_name}s")
        if names is None or value in names:
            return value
        wanted, mend = f"a known {info.field_name}", suggestion(value, names)
        if info.field_name == "workload":
            wanted = "a known workload or the path of a trace"
            if "/" in value or value.endswith(".trace"):
                if Path(value).is_file():
                    return value
                mend = "no such file is to be seen from this directory, mend the path"
        raise ValueError(f"found {shown(value)}, wanted {wanted}; {mend}")


class Emulation(_Model):
    """How the real cluster shrinks to what one machine carries, and how often."""

    target: Literal["auto", "bmv2", "native"] = Field(
        default="auto",
        description="what runs the P4 program: auto, bmv2 or native",
        examples=["auto"],
    )
    dilation: Dilation = Field(
        default=200.0,
        description="the number by which rates are divided and times multiplied",
        examples=[200],
    )
    scale: Scale = Field(
        default=1 / 128,
        description="the ratio by which bytes and compute times are multiplied",
        examples=["1/128"],
    )
    repeats: Annotated[int, _count("how often every cell is run", 2)] = 1
    seed: Annotated[int, _count("the seed of all that is random", 1, least=0)] = 1


_VALUES: JsonDict = {"type": "array", "minItems": 1}
_PATHS: JsonDict = {"type": "object", "additionalProperties": _VALUES}
_PARTS = ("product", "zip", "exclude")


def _values(value: Any) -> Any:
    if not isinstance(value, (list, tuple)) or not value:
        raise ValueError(
            f"found {shown(value)}, wanted a list of at least one value; write for example [1, 2]"
        )
    return tuple(value)


Values = Annotated[tuple[Any, ...], BeforeValidator(_values)]


class Sweep(_Model):
    """Paths such as ``jobs.0.system``, each with the values that it takes.

    ``product``: every combination. ``zip``: the lists advance together, as one factor of the
    product. ``exclude``: combinations that are left out, each as path: value. In a file the
    product alone may stand without its key.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"required": ["product"]},
                {"required": ["zip"]},
                {"not": {"anyOf": [{"required": [part]} for part in _PARTS]}},
            ],
            "additionalProperties": _VALUES,
        }
    )
    product: dict[str, Values] = Field(
        default_factory=dict,
        json_schema_extra=_PATHS,
        description="a mapping of path to values",
        examples=[{"jobs.0.system": ["ps", "ring"]}],
    )
    zip: dict[str, Values] = Field(
        default_factory=dict,
        json_schema_extra=_PATHS,
        description="a mapping of path to values",
        examples=[{"jobs.0.system": ["ps", "ring"]}],
    )
    exclude: tuple[dict[str, Any], ...] = Field(
        default=(),
        description="a list of mappings of path to value",
        examples=[[{"jobs.0.system": "ps"}]],
    )

    @model_validator(mode="before")
    @classmethod
    def _long_form(cls, data: Any) -> Any:
        if is_short_sweep(data):
            data = {"product": data}
        return data

    @field_validator("exclude", mode="before")
    @classmethod
    def _tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @property
    def values(self) -> dict[str, tuple[Any, ...]]:
        """Every swept path with its values."""
        return {**self.product, **self.zip}


def is_short_sweep(data: object) -> bool:
    """Whether ``data`` is a sweep's product without its key."""
    return isinstance(data, dict) and bool(data) and not set(data) & set(_PARTS)


def _jobs(value: Any) -> Any:
    # Pydantic's own check of the length would count only the jobs that are valid.
    if isinstance(value, (list, tuple)) and not value:
        raise ValueError("found no job, wanted at least one; add a system, a workload and workers")
    # Strict mode takes no list for a tuple, and YAML has only lists.
    return tuple(value) if isinstance(value, list) else value


class Experiment(_Model):
    """An experiment file: jobs on a fabric, how they are run, and what is varied."""

    schema_version: Literal[1] = Field(
        description="the version of this format, 1", examples=[SCHEMA_VERSION]
    )
    name: Name = Field(description="a name, also of the directory of results", examples=["quick"])
    description: str = Field(
        default="", description="a line of text for people", examples=["PS and ring"]
    )
    fabric: Fabric = Field(
        description="a mapping that describes the fabric",
        examples=[
            {
                "kind": "leaf-spine",
                "spines": 2,
                "leaves": 2,
                "hosts_per_leaf": 5,
                "host_rate": "10Gbit",
            }
        ],
    )
    jobs: Annotated[tuple[Job, ...], BeforeValidator(_jobs)] = Field(
        description="a list of at least one job",
        examples=[[{"system": "ring", "workload": "resnet50", "workers": 8}]],
        json_schema_extra={"minItems": 1},
    )
    emulation: Emulation = Field(
        default_factory=Emulation,
        description="a mapping that says how the experiment is run",
        examples=[{"dilation": 200}],
    )
    sweep: Sweep | None = Field(
        default=None,
        description="a mapping of paths such as jobs.0.system to lists of values",
        examples=[{"jobs.0.system": ["ps", "ring"]}],
    )

    def data(self) -> dict[str, Any]:
        """As plain data that a file could hold: units as text, all defaults, no unset key."""
        data = self.model_dump(mode="json")
        data["fabric"] = {key: value for key, value in data["fabric"].items() if value is not None}
        if self.sweep is None:
            del data["sweep"]
        else:
            data["sweep"] = {part: value for part, value in data["sweep"].items() if value}
        return data
