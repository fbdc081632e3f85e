"""Labels of rows, by which figures and tables group them.

An experiment file has many fields and a table few columns. A field becomes part of a label only if
rows differ in it that would otherwise be grouped together.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from string import ascii_uppercase
from typing import Any

import numpy as np
import pandas as pd

SETTING = ["backend", "fabric", "workload", "workers", "conditions"]
"""Systems are compared if all of these are equal, and INA is at the same place."""
PLACE = ["ina", "ina_unit", "ina_count", "ina_total", "ina_policy"]
"""Where INA is: as text, the number of ToRs or switches out of all, and how they were chosen."""
SERIES = ["system", "variant"]
"""What is compared: systems, with their options if they ran with several."""

_INA = ("fabric.ina", "fabric.ina_policy", "fabric.ina_tier")
_CONDITIONS = (
    "job.bucket", "job.first_bucket", "job.overlap", "job.order", "job.placement",
    "job.fixed_point", "job.compute.", "emulation.loss", "emulation.duplication",
)  # fmt: skip
_VARIANT = (
    "job.options.", "job.colocated", "emulation.target", "emulation.p4_program",
    "emulation.dilation", "emulation.scale",
)  # fmt: skip
_LONGEST = 32  # characters of a value in a label, at most


def label(rows: pd.DataFrame, experiments: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """``rows`` with the columns of SETTING, PLACE and SERIES, and ``beside``.

    ``experiments`` are the contents of ``experiment.yaml`` by run. ``beside`` names the jobs that
    ran side by side with a row's own; it is empty if that was alone.
    """
    fields = _fields(rows, experiments)
    shape = [name for name in fields if name.startswith("fabric.") and name not in _INA]
    conditions = [name for name in fields if name.startswith(_CONDITIONS)]
    fields["iterations"] = rows["iterations"].astype(str)
    fields["servers"] = rows["servers"].astype(str)

    rows = rows.assign(beside=_beside(rows))
    rows["fabric"] = _joined(rows["topology"], _told_apart(rows, fields, ["topology"], shape))
    rows["conditions"] = _told_apart(
        rows, fields, ["backend", "fabric", "workload", "workers"], [*conditions, "iterations"]
    )
    rows = _placed(rows, fields)
    rows["variant"] = _variants(rows, fields)
    return rows


def _fields(rows: pd.DataFrame, experiments: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """The fields of each row's job: a column of text for each path, missing where unknown.

    The job's own fields are under ``job.``; those of the jobs beside it are left out.
    """
    bases = {run: _flat(content) for run, content in experiments.items()}
    sweeps = {run: bool(content.get("sweep")) for run, content in experiments.items()}
    known: dict[tuple[str, str, int], dict[str, str]] = {}
    records = []
    for run, settings, job in zip(rows["run"], rows["settings"], rows["job"], strict=True):
        key = run, settings, job
        if key not in known:
            written = settings or "{}"
            # Rows of older runs do not say which cell of the sweep they belong to.
            lost = sweeps.get(run, False) and written == "{}"
            own = _of_job(_with(bases.get(run, {}), written), job)
            known[key] = own if "job.system" in own and not lost else {}
        records.append(known[key])
    fields = pd.DataFrame.from_records(records, index=rows.index)
    # A field that a known row lacks was left out of its file: this means "default" for an option,
    # and "none" otherwise. The fields of unknown rows stay missing.
    known_rows = pd.Series([bool(each) for each in records], index=rows.index)
    for name in fields:
        left_out = fields[name].isna() & known_rows
        absent = "default" if name.startswith("job.options.") else "none"
        fields[name] = fields[name].mask(left_out, absent)
    return fields


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
            found[path] = value if isinstance(value, str) else json.dumps(value)
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
    name = path.rpartition(".")[2]
    texts = {
        value: value if len(value) <= _LONGEST else ascii_uppercase[place % 26]
        for place, value in enumerate(values.dropna().unique())
    }
    return f"{name}=" + values.map(texts).fillna("unknown")


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
    paths = [*(name for name in fields if name.startswith(_VARIANT)), "servers"]
    same = [rows[name] for name in (*SETTING, "ina", "beside", "system")]
    for path in paths:
        if fields[path].nunique() > 1:
            differ = fields[path].groupby(same, dropna=False).transform("nunique") > 1
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


def _beside(rows: pd.DataFrame) -> pd.Series:
    """The systems and workloads of the jobs that ran side by side with each row's job."""
    beside = pd.Series("", index=rows.index)
    shared = rows.groupby(["run", "cell", "repeat"])["job"].transform("nunique") > 1
    for _, together in rows[shared].groupby(["run", "cell", "repeat"]):
        names = (together["system"] + " " + together["workload"]).to_dict()
        for own in together.index:
            beside[own] = " + ".join(name for at, name in names.items() if at != own)
    return beside
