"""Plans of users' systems: whatever callable they are, and whatever they raise."""

from __future__ import annotations

import ast
from functools import lru_cache, partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from testbed.deployment import users_code

JOB = SimpleNamespace(workers=("h0", "h1"))
FABRIC = SimpleNamespace(hosts=("h0", "h1"), ina=())


def nothing(job, fabric):
    return None


def ends(job, fabric, error=GeneratorExit):
    raise error("so")


class Callable:
    def __call__(self, job, fabric):
        return 3


def planned(plan):
    place = users_code._place(plan, Path("mine.py"))
    return users_code._checked(SimpleNamespace(name="mine", plan=plan), place)(JOB, FABRIC)


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (nothing, r"test_users_code.py:\d+: plan: found"),
        (partial(nothing), r"test_users_code.py:\d+: plan: found"),
        (Callable(), r"mine.py:1: plan: found"),
        (lru_cache(nothing), r"test_users_code.py:\d+: TypeError: unhashable"),
        (ends, r"test_users_code.py:\d+: GeneratorExit: so"),
        (partial(ends, error=SystemExit), r"test_users_code.py:\d+: SystemExit: so"),
        (partial(ends, error=ValueError), "^so$"),
    ],
)
def test_what_is_no_plan_is_refused_with_its_place(plan, said):
    with pytest.raises(ValueError, match=said):
        planned(plan)


def test_a_user_can_interrupt_a_plan():
    with pytest.raises(KeyboardInterrupt):
        planned(partial(ends, error=KeyboardInterrupt))


@pytest.mark.parametrize("line", ["SYSTEM = System()", "SYSTEM: System = System()"])
def test_the_line_of_a_constant(line):
    assert users_code._line(ast.parse(f"import a\nOTHER = 1\n{line}"), "SYSTEM") == 3
    assert users_code._line(ast.parse("a.SYSTEM = 1\nb = 1"), "SYSTEM") == 1
