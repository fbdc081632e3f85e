"""What an experiment file may say, as pydantic models.

Values are those of the real cluster, in SI units (bit/s, bytes, seconds); ``emulation`` says how
they shrink to what the machine carries. In files and dumps rates, sizes and times are text with a
unit. Each field's description says what is wanted there and its example how to write it: both
serve the messages about bad input as well as the JSON schema.

What no single field can know (names that must exist, hosts that must suffice) is in ``checks``.
"""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic.config import JsonDict
from pydantic_core.core_schema import ValidationInfo

from testbed.experiment.fabrics import Fabric
from testbed.experiment.fields import (
    Dilation,
    Factors,
    Loss,
    Model,
    Name,
    Program,
    Ratio,
    Scale,
    Share,
    Size,
    Slowdown,
    Time,
    count,
    sequence,
)
from testbed.experiment.findings import shown, suggestion
from testbed.experiment.nodes import Ranks, Servers, Workers
from testbed.workload import synthetic
from testbed.workload.quantise import ATP_FACTOR
from testbed.workload.synthetic import SYNTHETIC

SCHEMA_VERSION = 1


class Stragglers(Model):
    """Workers that are slow at times: in an iteration each is one with ``probability``."""

    workers: Ranks = Field(
        description="the number of workers, drawn once by the seed, or a list of their ranks",
        examples=[1],
    )
    slowdown: Slowdown = Field(
        description="the number of at least 1 by which their compute time is multiplied then",
        examples=[2],
    )
    probability: Share = Field(
        default=1.0,
        description="the probability in each iteration, a ratio from 0 to 1",
        examples=[0.1],
    )


class Compute(Model):
    """How far workers' compute times are from the workload's.

    In each iteration a worker's time is the workload's, times its ``factor``, times a draw from
    1 - jitter to 1 + jitter (uniform), times the ``slowdown`` if it is a straggler just then. All
    draws follow from the seed, the job, the rank and the iteration.
    """

    factor: Factors = Field(
        default=1.0,
        description="a number by which compute times are multiplied, or a list with one for each"
        " worker in the order of ranks",
        examples=[1],
    )
    jitter: Share = Field(
        default=0.0,
        description="how far a compute time may be from the mean, a ratio from 0 to 1",
        examples=[0.1],
    )
    stragglers: Stragglers | None = Field(
        default=None,
        description="a mapping that says which workers are slow, how slow and how often",
        examples=[{"workers": 1, "slowdown": 2}],
    )


class Job(Model):
    """One training job: who synchronises what, and how."""

    system: str = Field(description="the name of a system", examples=["ring"])
    workload: str = Field(
        description="the name of a workload, synthetic/SIZE, or the path of a trace",
        examples=["resnet50"],
    )
    workers: Workers = Field(
        description="the number of workers, or a list of their hosts", examples=[8]
    )
    placement: Literal["packed", "spread", "random"] = Field(
        default="packed",
        description="how counted workers and servers fill the racks: packed, spread or random",
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
    start: Time = Field(
        default=0.0,
        description="the time at which the job starts, counted from the first one's start,"
        " with its unit",
        examples=["0s"],
    )
    iterations: Annotated[int, count("the iterations that are measured", 3)] = 3
    warmup: Annotated[int, count("the iterations before those", 1, least=0)] = 1
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
    order: Literal["backward", "priority"] = Field(
        default="backward",
        description="what is sent first: backward (what is ready first, as PyTorch DDP does) or"
        " priority (of what is ready, the layers nearest to the input, as P3 and ByteScheduler do)",
        examples=["priority"],
    )
    forward: Literal["whole", "by_tensor"] = Field(
        default="whole",
        description="what a forward pass waits for: whole (the whole gradient, as PyTorch DDP does)"
        " or by_tensor (before each layer for the bucket that holds its gradient)",
        examples=["by_tensor"],
    )
    gradients: Literal["normal", "real"] = Field(
        default="normal",
        description="what is summed: normal (drawn from the normal distribution) or real (drawn"
        " from gradients of the workload's family that were recorded in training)",
        examples=["normal"],
    )
    fixed_point: Annotated[
        int, count("the bits after the binary point of gradients as integers", 20, least=0, most=30)
    ] = 20
    quantisation: Literal["fixed_point", "factor", "block_exponent"] = Field(
        default="fixed_point",
        description="how real gradients become integers: fixed_point (their deviation is 2 to that"
        " power), factor (all are multiplied by it, as in ATP) or block_exponent (each packet by"
        " what its largest value allows, as in SwitchML)",
        examples=["fixed_point"],
    )
    factor: Ratio = Field(
        default=ATP_FACTOR,
        description="the number by which real gradients are multiplied where quantisation is"
        " factor: ATP's client has 1000000, its paper 100000000",
        examples=[1_000_000],
    )
    compute: Compute | None = Field(
        default=None,
        description="a mapping of factor, jitter and stragglers, for workers that are not alike",
        examples=[{"jitter": 0.1}],
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="a mapping of the system's own options", examples=[{}]
    )

    @field_validator("system", "workload")
    @classmethod
    def _known(cls, value: str, info: ValidationInfo) -> str:
        """The context may hold the known ``systems`` and ``workloads``."""
        assert info.field_name is not None
        if info.field_name == "workload" and value.startswith(SYNTHETIC):
            synthetic.named(value)  # says what is wrong with it
            return value
        names = (info.context or {}).get(f"{info.field_name}s")
        if names is None or value in names:
            return value
        wanted, mend = f"a known {info.field_name}", suggestion(value, names)
        if info.field_name == "workload":
            wanted = "a known workload or the path of a trace"
            if "/" in value or value.endswith(".trace"):
                if os.path.isfile(value):  # unlike Path's, never an error
                    return value
                mend = "no such file is to be seen from this directory, mend the path"
        raise ValueError(f"found {shown(value)}, wanted {wanted}; {mend}")


class Emulation(Model):
    """How the real cluster shrinks to what one machine carries, and how often."""

    target: Literal["auto", "bmv2", "native"] = Field(
        default="auto",
        description="what runs the P4 program: auto, bmv2 or native",
        examples=["auto"],
    )
    dilation: Dilation = Field(
        default=200.0,
        description="the number by which rates are divided and times multiplied, or auto: the"
        " smallest that this machine is likely to carry",
        examples=[200],
    )
    scale: Scale = Field(
        default=1 / 128,
        description="the ratio by which bytes and compute times are multiplied",
        examples=["1/128"],
    )
    loss: Loss = Field(
        default=0.0,
        description="the share of packets lost on every host's link, each way, a ratio from 0 to"
        " 0.5",
        examples=["1/1000"],
    )
    p4_program: Program | None = Field(
        default=None,
        description="the path, as seen from this file, of a P4 program for the INA switches:"
        " a .p4 file, or a .json that p4c made of one",
        examples=["../p4/build/ina.json"],
    )
    repeats: Annotated[int, count("how often every cell is run", 2)] = 1
    seed: Annotated[int, count("the seed of all that is random", 1, least=0)] = 1


_VALUES: JsonDict = {"type": "array", "minItems": 1}
_PATHS: JsonDict = {"type": "object", "additionalProperties": _VALUES}
_PARTS = ("product", "zip", "exclude")


def _values(value: Any) -> Any:
    if not isinstance(value, (list, tuple)) or not value:
        raise ValueError(
            f"found {shown(value)}, wanted a list of at least one value; write for example [1, 2]"
        )
    return tuple(each for one in value for each in synthetic.expand(one))


Values = Annotated[tuple[Any, ...], BeforeValidator(_values)]


class Sweep(Model):
    """Paths such as ``jobs.0.system``, each with the values that it takes.

    ``product``: every combination. ``zip``: the lists advance together, as one factor of the
    product. ``exclude``: combinations that are left out, each as path: value. In a file the
    product alone may stand without its key. ``synthetic/1MB..128MB*2`` is a value for each size.
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
        return sequence(value)

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
    return sequence(value)


class Experiment(Model):
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
    backend: Literal["emulate", "packet", "simulate"] = Field(
        default="emulate",
        description="what runs the experiment: emulate, packet or simulate",
        examples=["emulate"],
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
        data = self.model_dump(mode="json", exclude_none=True)
        if self.sweep is not None:
            data["sweep"] = {part: value for part, value in data["sweep"].items() if value}
        return data
