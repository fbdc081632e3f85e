"""The format of an experiment file, as pydantic models.

Values are those of the real cluster, in SI units (bit/s, bytes, seconds); ``emulation`` says how
they are scaled down to the machine. In files and dumps, rates, sizes and times are text with a
unit. Each field has a description, which says which values are valid, and an example, which shows
how to write them. Error messages and the JSON schema use both.

Checks across fields (such as names that must exist, and enough hosts) are in ``checks``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic.config import JsonDict
from pydantic_core.core_schema import ValidationInfo

from testbed import extensions
from testbed.experiment.fabrics import Fabric
from testbed.experiment.fields import (
    Density,
    Dilation,
    Factors,
    LinkShares,
    Model,
    Name,
    Program,
    Ratio,
    Scale,
    Script,
    Share,
    Size,
    Slowdown,
    Time,
    count,
    sequence,
)
from testbed.experiment.findings import counted, shown, suggestion
from testbed.experiment.nodes import Ranks, Servers, Workers
from testbed.workload import synthetic, trace_file
from testbed.workload.synthetic import SYNTHETIC
from testbed.workload.trace import TraceError

SCHEMA_VERSION = 1


class Stragglers(Model):
    """Workers that are slow in some iterations, each with ``probability``."""

    workers: Ranks = Field(
        description="the number of workers, drawn once by the seed, or a list of their ranks",
        examples=[1],
    )
    slowdown: Slowdown = Field(
        description="the factor of their compute time in those iterations, a number from 1 to"
        " 1000000",
        examples=[2],
    )
    probability: Share = Field(
        default=1.0,
        description="the probability in each iteration, a ratio from 0 to 1",
        examples=[0.1],
    )


class Compute(Model):
    """How workers' compute times differ from the workload's.

    In each iteration a worker's time is the workload's, times its ``factor``, times a random number
    from 1 - jitter to 1 + jitter (uniform), times the ``slowdown`` if it is a straggler in this
    iteration. The random numbers depend on the seed, the job, the rank and the iteration.
    """

    factor: Factors = Field(
        default=1.0,
        description="the factor of compute times, above 0 and at most 1000000, or a list with one"
        " for each worker in the order of ranks",
        examples=[1],
    )
    jitter: Share = Field(
        default=0.0,
        description="the largest relative deviation of a compute time, a ratio from 0 to 1",
        examples=[0.1],
    )
    stragglers: Stragglers | None = Field(
        default=None,
        description="a mapping that says which workers are slow, how slow and how often",
        examples=[{"workers": 1, "slowdown": 2}],
    )


class Training(Model):
    """How a job learns: the script that computes, the optimizer, and when it is evaluated."""

    script: Script | None = Field(
        default=None,
        description="the path of a training script, relative to this file; unset, the workload's"
        " own, beside its trace",
        examples=["mine.py"],
    )
    device: str | None = Field(
        default=None,
        description="the device of PyTorch's that computes gradients, such as cuda or cuda:1;"
        " unset, the CPU, on which the same seed gives the same bits",
        examples=["cuda"],
    )
    optimizer: Literal["sgd", "adam"] = Field(
        default="sgd", description="the optimizer: sgd (with momentum) or adam", examples=["sgd"]
    )
    rate: Annotated[float, Field(gt=0, le=1000)] = Field(
        default=0.05,
        description="the learning rate, a number above 0, at most 1000",
        examples=[0.05],
    )
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.9,
        description="the momentum of sgd, a number from 0 to less than 1",
        examples=[0.9],
    )
    evaluate_every: Annotated[int, count("the iterations between two evaluations", 10)] = 10
    target: float | None = Field(
        default=None,
        description="the value of the script's metric to which time is taken, a number",
        examples=[0.95],
    )
    correction: Literal["local_gradient", "none"] = Field(
        default="local_gradient",
        description="what workers do with parameters whose sums are deferred: local_gradient (a"
        " step with their own gradient until the sum arrives, OSP's LGP) or none (wait)",
        examples=["none"],
    )


class Job(Model):
    """One training job: its system, its workload, its workers and their settings."""

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
        description="how workers and servers given as numbers fill the racks: packed, spread or"
        " random",
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
        description="whether servers may run on workers' hosts, true or false",
        examples=[True],
    )
    start: Time = Field(
        default=0.0,
        description="the time from the start of the first job to the start of this one, with its"
        " unit",
        examples=["0s"],
    )
    iterations: Annotated[int, count("the iterations that are measured", 3)] = 3
    warmup: Annotated[int, count("the iterations before the measured ones", 1, least=0)] = 1
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
        description="the order of sending: backward (as gradients become ready, as in PyTorch DDP)"
        " or priority (of those ready, the layers nearest to the input first, as in P3 and"
        " ByteScheduler)",
        examples=["priority"],
    )
    forward: Literal["whole", "by_tensor"] = Field(
        default="whole",
        description="what a forward pass waits for: whole (the whole gradient, as in PyTorch DDP)"
        " or by_tensor (before each layer, the bucket with its gradient)",
        examples=["by_tensor"],
    )
    gradients: Literal["normal", "real"] = Field(
        default="normal",
        description="the values that are summed: normal (from the normal distribution) or real"
        " (from gradients of the workload's family, recorded in training)",
        examples=["normal"],
    )
    density: Density = Field(
        default=1.0,
        description="for a system that skips zeros, the share of a worker's blocks (a packet's"
        " values, or single ones where the system skips those) that are not zero, a ratio above 0,"
        " at most 1, or recorded (those of real gradients, for blocks of a packet)",
        examples=[0.1],
    )
    fixed_point: Annotated[
        int, count("the fractional bits of gradients as integers", 20, least=0, most=30)
    ] = 20
    quantisation: Literal["fixed_point", "factor", "block_exponent"] = Field(
        default="fixed_point",
        description="how real gradients become integers: fixed_point (with a standard deviation of"
        " 2 to that power), factor (multiplied by the factor, as in ATP) or block_exponent (each"
        " packet scaled by its largest value, as in SwitchML)",
        examples=["fixed_point"],
    )
    factor: Ratio = Field(
        default=1e6,
        description="the factor of real gradients if quantisation is factor: ATP's client has"
        " 1000000, its paper 100000000",
        examples=[1_000_000],
    )
    compute: Compute | None = Field(
        default=None,
        description="a mapping of factor, jitter and stragglers, for workers of unequal speed",
        examples=[{"jitter": 0.1}],
    )
    training: Training | None = Field(
        default=None,
        description="a mapping that says how the job learns; without it, the workload is replayed",
        examples=[{"rate": 0.05, "target": 0.95}],
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="a mapping of the system's own options", examples=[{}]
    )

    @field_validator("system", "workload")
    @classmethod
    def _known(cls, value: str, info: ValidationInfo) -> str:
        """Check the name, if the context has the known ``systems`` or ``workloads``."""
        assert info.field_name is not None
        if info.field_name == "workload" and value.startswith(SYNTHETIC):
            synthetic.named(value)  # raises an error with the reason
            return value
        names = (info.context or {}).get(f"{info.field_name}s")
        if names is None or value in names:
            return value
        wanted, fix = f"a known {info.field_name}", suggestion(value, names)
        if info.field_name == "system":
            fix += "" if fix.startswith("did") else f"; {extensions.searched('systems')}"
        else:
            wanted = "a known workload or the path of a trace"
            is_file = os.path.isfile(value)  # unlike Path's, never an error
            if "/" in value or value.endswith(".trace"):
                if is_file:
                    _check_trace(value)
                    return value
                fix = "no such file exists relative to this directory, correct the path"
            elif is_file:
                made = f"{value.partition('.')[0]}.trace"
                fix = f"make one with `ina-testbed trace import {value} {made}`, and name that"
        raise ValueError(f"found {shown(value)}, wanted {wanted}; {fix}")


def _check_trace(path: str) -> None:
    """Raise ValueError with the first few problems of a trace file."""
    try:
        trace_file.load(Path(path))
    except TraceError as error:
        first = "; ".join(error.problems[:3])
        more = len(error.problems) - 3
        rest = f"; and {counted(more, 'more problem')}" if more > 0 else ""
        raise ValueError(
            f"found {shown(path)}, wanted a sound trace: {first}{rest}; `ina-testbed trace show"
            f" {path}` lists every problem"
        ) from error


class Fault(Model):
    """Something that fails at an instant of a run.

    A link is down from ``at`` to ``until``, or for ever; with ``loss``, ``duplication``,
    ``corruption`` or ``reordering`` it is impaired instead. A switch loses its memory at ``at``,
    and forwards nothing until ``until``, if that is given. With ``tables`` it also loses its
    tables; it forwards at once, and gets them back entry by entry until ``until``. A host pauses
    until ``until``, or dies with its ranks; with ``packet`` it sends that packet instead. ``wrap``
    is a condition of the whole run. The emulator kills a switch's process and starts another, so
    the tables are lost, too.
    """

    at: Time = Field(description="when it happens, a time after the start", examples=["10ms"])
    until: Time | None = Field(
        default=None, description="when it is over, a time after the start", examples=["20ms"]
    )
    link: str | None = Field(
        default=None,
        description="a link that goes down or is impaired, such as t0-s0",
        examples=["t0-s0"],
    )
    switch: str | None = Field(
        default=None, description="a switch that loses its memory", examples=["t0"]
    )
    host: str | None = Field(
        default=None,
        description="a host that pauses (with until), dies, or sends a packet",
        examples=["h0"],
    )
    wrap: int | None = Field(
        default=None,
        ge=1,
        description="how many fragments are sent before numbers wrap, a whole number of at least 1",
        examples=[20],
    )
    loss: Share | None = Field(
        default=None,
        description="the share of packets that the link loses, a ratio from 0 to 1",
        examples=[0.1],
    )
    duplication: Share | None = Field(
        default=None,
        description="the share of packets that the link delivers twice, a ratio from 0 to 1",
        examples=[0.1],
    )
    corruption: Share | None = Field(
        default=None,
        description="the share of packets in which the link changes bytes, so that the receiver's"
        " checksum rejects them, a ratio from 0 to 1",
        examples=[0.1],
    )
    reordering: Share | None = Field(
        default=None,
        description="the share of packets that the link holds up, so that others overtake them, a"
        " ratio from 0 to 1",
        examples=[0.1],
    )
    delay: Time = Field(
        default=100e-6,
        description="the longest time for which a packet is held up, a time with its unit",
        examples=["100us"],
    )
    tables: int | None = Field(
        default=None,
        ge=0,
        description="a seed of the order of the entries, a whole number of at least 0",
        examples=[1],
    )
    packet: str | None = Field(
        default=None,
        pattern="^([0-9a-f]{2})*$",
        description="the payload of a UDP packet that the host sends, in hexadecimal digits",
        examples=["01"],
    )
    to: str | None = Field(
        default=None, description="the node to which that packet is sent", examples=["t0"]
    )
    port: Annotated[int, count("the UDP port of that packet", 48864, least=1, most=65535)] = 48864

    @property
    def impairs(self) -> bool:
        """Whether a link stays up, impaired."""
        found = (self.loss, self.duplication, self.corruption, self.reordering)
        return any(each is not None for each in found)

    @property
    def not_emulated(self) -> list[str]:
        """The fields that are set, but that the emulator cannot bring about."""
        names = ("wrap", "packet", "corruption", "reordering")
        return [name for name in names if getattr(self, name) is not None]

    @property
    def lasts(self) -> bool:
        """Whether a host or a link is gone for good."""
        goes = self.host is not None and self.packet is None
        return self.until is None and (goes or (self.link is not None and not self.impairs))

    @model_validator(mode="after")
    def _one(self) -> Fault:
        kinds = ("link", "switch", "host", "wrap")
        named = [name for name in kinds if getattr(self, name) is not None]
        if len(named) != 1:
            raise ValueError(
                f"found {' and '.join(named) or 'nothing'} that fails, wanted one of link, switch,"
                " host and wrap; write an entry for each"
            )
        if self.until is not None and (
            self.until <= self.at or self.packet is not None or self.wrap is not None
        ):
            raise ValueError(
                "found until, wanted a later time than at, and none for a packet or wrap; correct"
                " or remove it"
            )
        if self.impairs and self.link is None:
            raise ValueError("found an impairment, wanted a link that has it; add link")
        if self.tables is not None and (self.switch is None or self.until is None):
            raise ValueError("found tables, wanted a switch, and until when it is told; add them")
        if (self.packet is None) != (self.to is None) or (self.packet and self.host is None):
            raise ValueError("found a part of a packet, wanted host, packet and to; add the others")
        return self


class Emulation(Model):
    """How the real cluster is scaled down to one machine, and how often each cell runs."""

    target: Literal["auto", "bmv2", "native"] = Field(
        default="auto",
        description="the switch that runs the P4 program: auto, bmv2 or native",
        examples=["auto"],
    )
    dilation: Dilation = Field(
        default=200.0,
        description="the number by which rates are divided and times multiplied, or auto for the"
        " smallest that this machine can probably handle",
        examples=[200],
    )
    scale: Scale = Field(
        default=1 / 128,
        description="the ratio by which bytes and compute times are multiplied",
        examples=["1/128"],
    )
    loss: LinkShares = Field(
        default=0.0,
        description="the share of packets that every host's link loses in each direction, a ratio"
        " from 0 to 0.5, or a mapping of links (by name, hosts or all) to such ratios",
        examples=["1/1000"],
    )
    duplication: LinkShares = Field(
        default=0.0,
        description="the share of packets that every host's link delivers twice in each direction,"
        " a ratio from 0 to 0.5, or a mapping of links (by name, hosts or all) to such ratios",
        examples=[{"all": 0.01}],
    )
    p4_program: Program | None = Field(
        default=None,
        description="the path, relative to this file, of a P4 program for the INA switches: a .p4"
        " file, or a .json that p4c compiled from one",
        examples=["../p4/build/ina.json"],
    )
    timers: Literal["real", "dilated"] = Field(
        default="real",
        description="with backend: packet, the hosts' own times (timeouts, delayed"
        " acknowledgements): real, or dilated as in the emulator",
        examples=["dilated"],
    )
    carried_values: Literal["few", "all"] = Field(
        default="few",
        description="with backend: packet, how many values a packet of an INA system carries: few"
        " (8) or all; it always counts as a full packet on links",
        examples=["all"],
    )
    faults: Annotated[tuple[Fault, ...], BeforeValidator(sequence)] = Field(
        default=(),
        description="with backend: packet or emulate, a list of links, switches and hosts that"
        " fail, and when",
        examples=[[]],
    )
    repeats: Annotated[int, count("the number of runs of every cell", 2)] = 1
    seed: Annotated[int, count("the seed of all random choices", 1, least=0)] = 1

    @property
    def is_impaired(self) -> bool:
        """Whether, on purpose, links lose packets or deliver some twice, or anything fails."""
        asked = (self.loss, self.duplication)
        shares = (any(each.values()) if isinstance(each, dict) else each for each in asked)
        return bool(self.faults) or any(shares)


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
    product. ``exclude``: combinations that are left out, each as ``path: value`` or ``path: list of
    values``. In a file, a product on its own needs no key. ``synthetic/1MB..128MB*2`` stands for
    one value per size.
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
        description="a list of mappings of path to value, or to a list of values",
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
        """Each swept path with its values."""
        return {**self.product, **self.zip}


def is_short_sweep(data: object) -> bool:
    """Whether ``data`` is a sweep's product without its key."""
    return isinstance(data, dict) and bool(data) and not set(data) & set(_PARTS)


def _jobs(value: Any) -> Any:
    # Pydantic's own check of the length would count only valid jobs.
    if isinstance(value, (list, tuple)) and not value:
        raise ValueError("found no job, wanted at least one; add a system, a workload and workers")
    return sequence(value)


class Experiment(Model):
    """An experiment file: jobs on a fabric, how they are run, and what is swept."""

    schema_version: Literal[1] = Field(
        description="the version of this format, 1", examples=[SCHEMA_VERSION]
    )
    name: Name = Field(description="a name, also for the directory of results", examples=["quick"])
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
        description="the back end: emulate, packet or simulate",
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

    @field_validator("schema_version", mode="before")
    @classmethod
    def _whole(cls, value: object) -> object:
        """Reject 1.0 and True, which equal 1 in Python."""
        if isinstance(value, (bool, float)):
            raise ValueError(f"found {shown(value)}, wanted the version of this format, 1; write 1")
        return value

    def data(self) -> dict[str, Any]:
        """The experiment as plain data for a file: units as text, with all defaults, without unset
        keys."""
        data = self.model_dump(mode="json", exclude_none=True)
        if self.sweep is not None:
            data["sweep"] = {part: value for part, value in data["sweep"].items() if value}
        return data
