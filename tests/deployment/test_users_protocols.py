"""Methods of users' protocols: what they return and raise, with their place."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from testbed import extensions
from testbed.deployment import users_protocols
from testbed.deployment.errors import DeploymentError
from testbed.switches.compile import PROGRAM, SOURCES

TEXT = """\
from testbed.plan.program import SwitchAllReduce
from testbed.protocols.protocol import TreeProtocol

class Mine(TreeProtocol):
    {method}

PROTOCOL = Mine(
    name="mine", citation="none", published=(), reading=(), loss="", operations=(SwitchAllReduce,),
    number=200, control="mine.p4", switch_may_be_root=True,
)
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.setenv(extensions.VARIABLE, str(tmp_path))
    home = tmp_path / "protocols" / "mine"
    home.mkdir(parents=True)
    (home / "mine.p4").touch()

    def protocol(method, old="", new=""):
        path = home / "protocol.py"
        path.write_text(TEXT.format(method=method).replace(old, new))
        spec = spec_from_file_location("mine", path)
        assert spec and spec.loader
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.PROTOCOL, home

    return protocol


UNITS = ["one", "two"]


@pytest.mark.parametrize(
    ("method", "arguments", "said"),
    [
        ("def window(self, options, fair): return 8", ({}, 4), "window: found 8, wanted two whole"),
        ("def window(self, options, fair): return 0, 0", ({}, 4), r"found \(0, 0\), wanted two"),
        ("def window(self, options, fair): return 2.5, 0", ({}, 4), r"found \(2.5, 0\), wanted"),
        ("def window(self, options, fair): return 1 / 0", ({}, 4), "window: ZeroDivisionError: d"),
        ("def priorities(self, options, units, scale): return (0,)", ({}, UNITS, 1), "wanted 2 wh"),
        ("def priorities(self, options, units, scale): return (0, 8)", ({}, UNITS, 1), "from 0 to"),
        ("def own_slots(self, fragments): return True", (3,), "found True, wanted a whole number"),
        ("def carried(self, packets, *more): return -1", (9, 1, 2, 0.5), "a number from 0 to 9"),
        ("def slots(self, place): return ()", (None,), "wanted whole numbers from 0 on, one"),
        ("def role(self, place): return None", (None,), "found None, wanted a Member, Root or"),
        ("def join(self, part): return 3", (None,), "found 3, wanted a TableEntry"),
        ("def connection(self, *part): return 3", (None, "h0", 0), "wanted a TableEntry or None"),
        ("def copy(self, part, child): return 'address'", (None, "h0"), "the name of an action"),
    ],
)
def test_what_a_method_must_not_return_is_told_with_its_place(method, arguments, said, mine):
    protocol, home = mine(method)
    for _ in range(2):  # it is checked once, however often the verb checks its extensions
        users_protocols.check(protocol, home)
    name = method.split()[1].partition("(")[0]
    with pytest.raises(DeploymentError, match=rf"mine/protocol.py:5: {name}: ") as caught:
        getattr(protocol, name)(*arguments)
    assert str(caught.value).count("protocol.py") == 1
    caught.match(said)


def test_what_is_right_is_returned_as_it_is(mine):
    protocol, home = mine("def window(self, options, fair): return fair // 2, 0")
    users_protocols.check(protocol, home)
    assert protocol.window({}, 8) == (4, 0)
    assert protocol.priorities({}, UNITS, 1) == (0, 0)
    assert list(users_protocols.wrong(protocol, home)) == []


def test_the_number_is_that_of_the_control(mine):
    protocol, home = mine("pass")
    (home / "mine.p4").write_text("#define OWN_NUMBER 0xC9\n")
    (told,) = users_protocols.wrong(protocol, home)
    assert told == "number = 200, wanted 201, which mine.p4 has as OWN_NUMBER"


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("other.c", "const struct protocol mine = {0};", "other.c and no mine.c, wanted one"),
        ("queue.c", "", "a file queue.c, a name that the hosts' C code uses itself"),
        ("tree.h", "", "a file tree.h, a name that the hosts' C code uses itself"),
        ("mine.c", "const struct protocol mein = {0};", "mine.c without `const struct protocol"),
        ("mine.c", "const struct protocol mine = {0};", None),
    ],
)
def test_hosts_code_that_would_not_be_used_is_told(file, text, said, mine):
    protocol, home = mine("pass")
    (home / file).write_text(text)
    told = next(users_protocols.wrong(protocol, home), None)
    assert told is None if said is None else str(told).startswith(said)


def test_the_protocols_of_a_program():
    toy = Path(__file__).parents[1] / "protocols" / "toys" / "loud"
    assert users_protocols.numbers_in(toy / "loud.p4") == [200]
    assert users_protocols.numbers_in(toy / "loud.json") == [200]
    assert users_protocols.numbers_in(PROGRAM) == []
    assert users_protocols.numbers_in(SOURCES / "examples" / "saturating.p4") is None


@pytest.mark.parametrize(
    ("method", "old", "new", "said"),
    [
        ("pass", 'name="mine"', 'name="mein"', "name = 'mein', wanted 'mine', its folder"),
        ("pass", "number=200", "number=3", "number = 3, wanted one from 200 to 255"),
        ("pass", "mine.p4", "mein.p4", "control = 'mein.p4', wanted a P4 file of "),
        ("def window(self, options): return 1, 0", "", "", "a method window that cannot be called"),
    ],
)
def test_wrong_fields_are_told(method, old, new, said, mine):
    protocol, home = mine(method, old, new)
    (told,) = users_protocols.wrong(protocol, home)
    assert told.startswith(said)
