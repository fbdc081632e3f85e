"""Labels of rows, by which figures and tables group them.

An experiment file has many fields and a table few columns. A field becomes part of a label only if
rows differ in it that would otherwise be grouped together.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from string import ascii_uppercase
from typing import Any

import numpy as np
import pandas as pd

from testbed.experiment.fields import Model
from testbed.experiment.schema import Compute, Emulation, Fault, Job
from testbed.report import names

ROW = ["run", "cell", "repeat", "job"]
"""The columns that name a row of results; those of iterations begin with them, too."""
SETTING = ["backend", "fabric", "workload", "workers", "conditions"]
"""Systems are compared if all of these are equal, and INA is at the same place."""
PLACE = ["ina", "ina_unit", "ina_count", "ina_total", "ina_policy"]
"""Where INA is: as text, the number of ToRs or switches out of all, and how they were chosen."""
SERIES = ["system", "variant"]
"""What is compared: systems, with their options if they ran with several."""

SEED = "emulation.seed"
"""A path that is swept to repeat random draws: cells that differ only in it are samples."""

_INA = ("fabric.ina", "fabric.ina_policy", "fabric.ina_tier")
_ELSEWHERE = (
    "job.system", "job.workload", "job.workers", "job.servers", "job.iterations", "job.start",
    "emulation.repeats", SEED,
)  # fmt: skip
"""Fields of jobs and of emulation that other columns show, or that make no difference to a job that
runs alone."""
_VARIANT = (
    "job.options.", "job.colocated", "emulation.target", "emulation.p4_program",
    "emulation.dilation", "emulation.scale",
)  # fmt: skip
_MODELS: dict[str, type[Model]] = {"job": Job, "job.compute": Compute, "emulation": Emulation}
"""The models of the fields that have a default where a file leaves them out. A job without
``training`` does not train, so it has no default of a field in there."""
_CONDITION = re.compile(
    r"emulation\.(loss|duplication|faults)\b|jobs\.\d+\.compute\b"
    r"|fabric\.(packet_cost|message_cost|link_delay|pipeline_latency)\b"
)
"""Paths of an experiment whose values a report mentions if they are not the default."""
_LONGEST = 32  # characters of a value in a label, at most


def label(rows: pd.DataFrame, experiments: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """``rows`` with the columns of SETTING, PLACE and SERIES, ``beside``, ``others`` and ``seed``.

    ``experiments`` are the contents of ``experiment.yaml`` by run. ``beside`` names the jobs that
    ran side by side with a row's own; it is empty if that was alone. ``others`` says in which
    fields, of any of these jobs, cells differ that would otherwise look alike. ``seed`` is the
    cell's, empty if unknown. It is no label: cells that differ only in it are samples.
    """
    fields = _fields(rows, experiments)
    shape = [name for name in fields if name.startswith("fabric.") and name not in _INA]
    conditions = [
        name
        for name in fields
        if name.startswith(("job.", "emulation.")) and not name.startswith((*_ELSEWHERE, *_VARIANT))
    ]
    fields["iterations"] = rows["iterations"].astype(str)
    fields["servers"] = rows["servers"].astype(str)

    seed = fields[SEED].fillna("") if SEED in fields else ""
    rows = rows.assign(beside=_beside(rows), seed=seed)
    fields["hosts"] = _listed(fields, "job.workers").where(rows["beside"] == "", "")
    fields["server_hosts"] = _listed(fields, "job.servers")
    rows["fabric"] = _joined(rows["topology"], _told_apart(rows, fields, ["topology"], shape))
    rows["conditions"] = _told_apart(
        rows,
        fields,
        ["backend", "fabric", "workload", "workers"],
        [*conditions, "iterations", "hosts"],
    )
    rows = _placed(rows, fields)
    rows["variant"] = _variants(rows, fields)
    rows["others"] = _others(rows)
    return rows


def in_company(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of jobs that ran side by side, as those of single jobs: ``conditions`` names the
    others, so systems are compared that had the same jobs beside them."""
    shared = rows[rows["beside"] != ""]
    company = "job " + shared["job"].astype(str) + " beside " + shared["beside"]
    conditions = _joined(_joined(shared["conditions"], company), shared["others"])
    return shared.assign(beside="", conditions=conditions)


def conditions(experiment: Mapping[str, Any], swept: Mapping[str, list[Any]]) -> list[str]:
    """``loss 0.01`` for each condition of an experiment that is not the default, and
    ``loss as the sweep says`` for each that it sweeps."""
    found = []
    for path, value in _flat({**experiment, "sweep": None}).items():
        if not _CONDITION.match(path) or any(f"{path}.".startswith(f"{one}.") for one in swept):
            continue
        default = _default(re.sub(r"^jobs\.\d+", "job", path))
        if path == "emulation.faults" and isinstance(value, list):
            found += [f"fault {_bare(_text(_as_given(each)))}" for each in value]
        elif _text(value) not in (default, "none", "0s"):
            found.append(f"{_called(path)} {_bare(_text(value))}")
    swept_too = (path for path in swept if _CONDITION.match(path))
    return [*found, *(f"{_called(path)} as the sweep says" for path in swept_too)]


def _as_given(fault: Any) -> Any:
    """A fault without the defaults that a run's file adds."""
    added = Fault.model_construct().model_dump(mode="json", exclude_none=True)
    if not isinstance(fault, dict):
        return fault
    return {name: value for name, value in fault.items() if added.get(name) != value}


def _called(path: str) -> str:
    """``job 0 compute jitter`` for ``jobs.0.compute.jitter``, ``loss`` for ``emulation.loss``."""
    named = path.removeprefix("emulation.").removeprefix("fabric.").replace("jobs.", "job ")
    return re.sub("[._]", " ", named)


def _listed(fields: pd.DataFrame, path: str) -> pd.Series:
    """Hosts that a job names one by one; empty if it says how many."""
    given = fields.get(path, pd.Series("", index=fields.index)).fillna("")
    return given.where(given.str.startswith("["), "")


def _fields(rows: pd.DataFrame, experiments: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """The fields of each row's job: a column of text for each path, missing where unknown.

    The job's own fields are under ``job.``; those of the jobs beside it are left out.
    """
    bases = {run: _flat(content) for run, content in experiments.items()}
    sweeps = {run: bool(content.get("sweep")) for run, content in experiments.items()}
    known: dict[tuple[str, str, int], dict[str, str]] = {}
    records = []
    for run, written, job in zip(rows["run"], rows["settings"], rows["job"], strict=True):
        key = run, written, job
        if key not in known:
            # Rows of older runs do not say which cell of the sweep they belong to.
            lost = sweeps.get(run, False) and written == "{}"
            own = _of_job(_with(bases.get(run, {}), written), job)
            known[key] = own if "job.system" in own and not lost else {}
        records.append(known[key])
    fields = pd.DataFrame(records, index=rows.index)
    # A field that a known row lacks was left out of its file, so it has its default. The fields of
    # unknown rows stay missing.
    known_rows = pd.Series([bool(each) for each in records], index=rows.index)
    for name in fields:
        left_out = fields[name].isna() & known_rows
        fields[name] = fields[name].mask(left_out, _default(name))
    return fields


@cache
def _default(path: str) -> str:
    """The default of a field as text: ``default`` for a system's option, ``none`` if the schema has
    none that is short."""
    if path.startswith("job.options."):
        return "default"
    above, _, name = path.rpartition(".")
    field = _MODELS[above].model_fields.get(name) if above in _MODELS else None
    default = None if field is None or field.is_required() else field.get_default()
    return _text(default) if isinstance(default, (bool, int, float, str)) else "none"


def _text(value: Any) -> str:
    if value in (None, [], {}):
        return "none"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, str) else json.dumps(value)


def _with(base: Mapping[str, Any], settings: str) -> dict[str, Any]:
    fields = dict(base)
    for path, value in json.loads(settings).items():
        replaced = _flat(value, path)
        if isinstance(value, dict):
            fields = {name: old for name, old in fields.items() if not name.startswith(f"{path}.")}
        fields.update(replaced)
    return fields


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    """Nested data as path to value. The list of jobs is split, other lists are not."""
    items: Iterable[tuple[Any, Any]]
    if isinstance(value, dict):
        items = value.items()
    elif path == "jobs" and isinstance(value, list):
        items = enumerate(value)
    else:
        return {path: value}
    before = f"{path}." if path else ""
    return {
        name: inner
        for key, each in items
        for name, inner in _flat(each, f"{before}{key}").items()
    }  # fmt: skip


def _of_job(fields: Mapping[str, Any], job: int) -> dict[str, str]:
    own = f"jobs.{job}."
    found = {}
    for path, value in fields.items():
        if path.startswith(own):
            path = "job." + path.removeprefix(own)
        if path.startswith(("fabric.", "job.", "emulation.")):
            found[path] = _text(value)
    return found


def _told_apart(
    rows: pd.DataFrame, fields: pd.DataFrame, within: list[str], paths: list[str]
) -> pd.Series:
    """For each row, ``name=value`` of the paths in which rows that agree ``within`` differ.

    A path that earlier ones decide is left out: where all links of 100 Gbit/s have long queues, the
    rate is enough.
    """
    keys = [rows[name] for name in within]
    labels = pd.Series("", index=rows.index)
    for path in paths:
        if fields[path].nunique() > 1:
            alike = [*keys, labels]
            differ = fields[path].groupby(alike, dropna=False).transform("nunique") > 1
            labels = labels.mask(differ, _joined(labels, _named(path, fields[path])))
    return labels


def _named(path: str, values: pd.Series) -> pd.Series:
    """``name=value``. Values that are too long for a label become letters."""
    *above, name = path.split(".")
    if above and above[-1] not in names.PLAIN:
        name = f"{above[-1]}.{name}"
    texts = {
        value: next(
            (text for text in (value, _bare(value)) if len(text) <= _LONGEST),
            ascii_uppercase[place % 26] + str(place // 26 or ""),
        )
        for place, value in enumerate(values.dropna().unique())
    }
    return f"{name}=" + values.map(texts).fillna("unknown")


def _bare(value: str) -> str:
    """``at 1ms link t0-s0`` for ``[{"at": "1ms", "link": "t0-s0"}]``."""
    return re.sub(r'[][{}":,]', "", value)


def _joined(first: pd.Series, second: pd.Series) -> pd.Series:
    between = np.where((first != "") & (second != ""), ", ", "")
    joined: pd.Series = first + between + second
    return joined


def _placed(rows: pd.DataFrame, fields: pd.DataFrame) -> pd.DataFrame:
    """``rows`` with the columns of PLACE."""
    # INA is counted in ToRs, or in switches if it is in other tiers, too.
    anywhere = (rows["ina_switches"].fillna(0) > 0) & (rows["ina_switches"] != rows["ina_tors"])
    count = rows["ina_switches"].where(anywhere, rows["ina_tors"]).astype(int)
    total = rows["switches"].where(anywhere, rows["tors"]).astype(int)
    rows = rows.assign(
        ina_unit=np.where(anywhere, "switches", "ToRs"), ina_count=count, ina_total=total
    )
    policy = _chosen(fields).mask((count == 0) | (count == total), "")  # there was no choice
    # The policy is named only if switches of one fabric were chosen in several ways.
    some = policy.where(policy != "")
    ways = some.groupby([rows["fabric"], rows["ina_unit"]], dropna=False).transform("nunique")
    rows["ina_policy"] = policy.where(ways > 1, "")
    words = count.astype(str) + "/" + total.astype(str) + " " + rows["ina_unit"]
    rows["ina"] = _joined(words, rows["ina_policy"])
    return rows


def _chosen(fields: pd.DataFrame) -> pd.Series:
    """How the switches with INA were chosen: their names if they were listed, otherwise the
    policy."""
    nothing = pd.Series("", index=fields.index)
    if "fabric.ina" not in fields:
        return nothing
    asked = fields["fabric.ina"].fillna("")
    policy = fields.get("fabric.ina_policy", nothing).fillna("")
    names = asked.str.replace(r'[\["\]]', "", regex=True)
    return policy.mask(asked.str.startswith("["), names)


def _variants(rows: pd.DataFrame, fields: pd.DataFrame) -> pd.Series:
    """The options in which a system's rows at the same place differ. If some rows of a system
    differ in one, all rows of the system name it."""
    labels = pd.Series("", index=rows.index)
    paths = [*(name for name in fields if name.startswith(_VARIANT)), "servers", "server_hosts"]
    same = [rows[name] for name in (*SETTING, "ina", "beside", "system")]
    for path in paths:
        if fields[path].nunique() > 1:
            alike = [*same, fields["servers"]] if path == "server_hosts" else same
            differ = fields[path].groupby(alike, dropna=False).transform("nunique") > 1
            named = _named(path, fields[path])
            for _, system in rows.groupby("system"):
                if differ[system.index].any():
                    own = system.index
                    labels[own] = _joined(labels[own], named[own])
    # Rows whose fields are unknown are labelled by their cell, because different cells must not be
    # averaged.
    unknown = fields["job.system"].isna() if "job.system" in fields else True
    cells = rows["cell"].groupby([*same, labels], dropna=False).transform("nunique")
    return labels.mask(unknown & (cells > 1), _joined(labels, "cell " + rows["cell"]))


def _others(rows: pd.DataFrame) -> pd.Series:
    """The swept fields in which rows of several jobs differ that have the same labels."""
    found = pd.Series("", index=rows.index)
    shared = rows[rows["beside"] != ""]
    if not len(shared):
        return found
    swept = pd.DataFrame.from_records(
        [
            {names.of_any(path): _text(value) for path, value in _with({}, settings).items()}
            for settings in shared["settings"]
        ],
        index=shared.index,
    ).fillna("")
    within = [*SETTING, "ina", *SERIES, "beside", "job"]
    return _told_apart(shared, swept, within, list(swept)).reindex(rows.index, fill_value="")


def _beside(rows: pd.DataFrame) -> pd.Series:
    """The systems and workloads of the jobs that ran side by side with each row's job.

    They are in the order of the jobs: stored baselines have their rows in another order.
    """
    beside = pd.Series("", index=rows.index)
    shared = rows.groupby(["run", "cell", "repeat"])["job"].transform("nunique") > 1
    in_order = rows[shared].sort_values("job")
    for _, together in in_order.groupby(["run", "cell", "repeat"]):
        names = (together["system"] + " " + together["workload"]).to_dict()
        for own in together.index:
            beside[own] = " + ".join(name for at, name in names.items() if at != own)
    return beside
