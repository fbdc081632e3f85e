"""``systems`` shows everything that a system declares."""

from __future__ import annotations

import json

import pytest
from verbs import invoke

from testbed.experiment.jsonschema import schema
from testbed.studies.declared import protocols_of
from testbed.systems import registry

every_system = pytest.mark.parametrize("system", registry.values(), ids=registry)


def shown(*arguments):
    return invoke("systems", *arguments)


def one_line(text):
    return " ".join(text.split())


def test_the_table_has_every_system_with_its_source():
    heading, *lines = shown().output.splitlines()
    assert heading.split()[:4] == ["name", "title", "protocols", "INA"]
    assert [line.split()[0] for line in lines] == list(registry)
    for line, system in zip(lines, registry.values(), strict=True):
        assert line.endswith(system.citation)


@every_system
def test_one_is_shown_in_full(system):
    said = one_line(shown(system.name).output)
    published, reading = said.index("Published"), said.index("Our reading")
    for rule in system.published:
        assert published < said.index(one_line(rule)) < reading
    for rule in system.reading:
        assert one_line(rule) in said[reading:]
    assert one_line(system.citation) in said
    for name, option in system.options.model_fields.items():
        default = "unset" if option.default is None else json.dumps(option.default).strip('"')
        start = said.index(f" {name}: ")
        assert f"; default {default} {one_line(option.description)}" in said[start:]


@every_system
def test_its_protocols_are_those_of_its_plan(system):
    found = protocols_of(system)
    assert found
    assert ("chunks" in found) <= system.waits
    if not system.aggregates:
        assert not {"atp", "switchml", "rack", "netreduce"} & {*found}


def test_an_unknown_name_is_told_with_the_nearest():
    done = shown("rinq")
    assert done.exit_code == 2
    assert 'did you mean "rin' in done.output


@every_system
def test_editors_show_the_same(system):
    (shown,) = (
        each
        for each in schema(registry)["$defs"]["Job"]["properties"]["system"]["oneOf"]
        if each["const"] == system.name
    )
    for text in (system.citation, *system.published, *system.reading):
        assert text in shown["description"]
