"""``new``: what it writes is valid and runs; users' own systems and protocols are found."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import made_up
import pytest
import yaml
from matplotlib.lines import Line2D
from verbs import invoke

from testbed import extensions, skeletons
from testbed.deployment.users_code import MARKERS, wrong_fields
from testbed.protocols import on_trees
from testbed.protocols import registry as protocols
from testbed.shipped import folder
from testbed.switches.compile import COMPILER
from testbed.systems import registry as systems

CHECKED = """
import sys, testbed
from testbed.cli import main
try:
    main(["validate", sys.argv[1]])
except SystemExit as end:
    assert not end.code, end.code
for row in testbed.run(sys.argv[1]).results.itertuples():
    assert (row.error, row.verdict) == ("", "valid"), row
    assert row.backend == "simulate" or row.verified
    print(row.system)
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(extensions.VARIABLE, raising=False)
    return tmp_path


def python(*arguments):
    """Run Python in another interpreter, because this one has already read its extensions."""
    root = str(Path(skeletons.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def verb(*arguments):
    return python("-m", "testbed.cli", *arguments)


def systems_run(experiment):
    done = python("-c", CHECKED, experiment)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[1:])


@pytest.mark.parametrize(
    ("kind", "systems"),
    [
        ("experiment", {"ring", "atp", "rina"}),
        ("system", {"ring", "my-own"}),
        ("protocol", {"my-own"}),
        ("workload", {"ring", "atp"}),
    ],
)
def test_what_is_written_validates_and_runs(kind, systems, here, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)  # a P4 compiler takes seconds
    done = invoke("new", kind, "my-own")
    assert done.exit_code == 0, done.output
    *written, following = done.output.splitlines()
    assert following == "next: ina-testbed run my-own.yaml"
    assert {here / line.removeprefix("wrote ") for line in written} == {
        path for path in here.rglob("*") if path.is_file()
    }
    assert systems_run("my-own.yaml") == systems


def test_a_protocols_system_runs_without_ina_too(here, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    invoke("new", "protocol", "my-own")
    text = (here / "my-own.yaml").read_text()
    (here / "my-own.yaml").write_text(text.replace("ina: all", "ina: none"))
    assert systems_run("my-own.yaml") == {"my-own"}


def test_a_protocol_that_the_switches_program_lacks_is_refused(here, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    invoke("new", "protocol", "my-own")
    text = (here / "my-own.yaml").read_text()
    (here / "my-own.yaml").write_text(text.replace("backend: simulate", "backend: packet"))
    done = python("-m", "testbed.cli", "validate", "my-own.yaml")
    assert done.returncode == 2
    assert "p4_program: found none, wanted" in done.stderr
    assert "my_own.p4" in done.stderr


def test_a_program_with_another_protocol_is_refused(here, monkeypatch):
    """NetReduce's control would handle its packets."""
    monkeypatch.setattr(shutil, "which", lambda name: None)
    invoke("new", "protocol", "my-own")
    toy = (Path(__file__).parents[1] / "protocols" / "toys" / "loud" / "loud.json").read_text()
    (here / "loud.json").write_text(toy.replace('"0xc8"', '"0xc9"'))
    text = (here / "my-own.yaml").read_text()
    text = text.replace(
        "backend: simulate\nemulation: {", "backend: packet\nemulation: {p4_program: loud.json, "
    )
    (here / "my-own.yaml").write_text(text)
    done = verb("validate", "my-own.yaml")
    assert done.returncode == 2
    assert "loud.json without the protocol my_own, number 200, wanted" in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which(COMPILER), reason=f"{COMPILER} is not installed")
def test_a_protocol_of_a_users_own_runs_in_packets(here):
    invoke("new", "protocol", "my-own")
    assert yaml.safe_load((here / "my-own.yaml").read_text())["backend"] == "packet"
    assert systems_run("my-own.yaml") == {"my-own"}


def test_an_interrupted_attempt_leaves_nothing_in_the_way(here, monkeypatch):
    def interrupted(path):
        (here / "mine.trace").write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(runpy, "run_path", interrupted)
    assert invoke("new", "workload", "mine").exit_code != 0
    assert not any(here.iterdir())


@pytest.mark.parametrize("kind", skeletons.KINDS)
def test_nothing_is_overwritten(kind, here):
    (here / "mine.yaml").write_text("mine\n")
    done = invoke("new", kind, "mine")
    assert done.exit_code == 2
    assert "mine.yaml" in done.output
    assert [path.name for path in here.rglob("*")] == ["mine.yaml"]
    assert (here / "mine.yaml").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("experiment", "../mine"), ("experiment", "Mine"), ("experiment", ""), ("workload", "a b"),
        ("system", "-mine"), ("system", "class"), ("system", "ring"), ("system", "racks"),
        ("protocol", "atp"), ("protocol", "part"), ("protocol", "m" * 41), ("workload", "a--b"),
        ("protocol", "pool"), ("protocol", "ina"), ("protocol", "queue"), ("protocol", "none"),
        ("system", "true"), ("experiment", "null"),
    ],
)  # fmt: skip
def test_a_bad_name_is_refused(kind, name, here):
    done = invoke("new", kind, "--", name)
    assert done.exit_code == 2
    assert "found " in done.output
    assert "wanted " in done.output
    assert not list(here.iterdir())


def test_the_control_is_that_of_the_protocols_tests():
    """So the tests of all protocols cover what the skeleton does."""
    toy = Path(__file__).parents[1] / "protocols" / "toys" / "loud" / "loud.p4"
    own = Path(skeletons.__file__).parent / "protocol" / "control.p4.j2"
    assert (
        own.read_text().partition("control Own")[2] == toy.read_text().partition("control Own")[2]
    )


@pytest.mark.parametrize(
    ("content", "place", "words"),
    [
        ("def broken(:\n", "bad.py:1:12: ", "SyntaxError"),
        ("x = 1\nimport no_such_module\n", "bad.py:2: ", "no_such_module"),
        ("from testbed.systems.ring import SYSTEM\n", "bad.py: ", "the name 'ring', which another"),
        ("SYSTEM = 5\n", "bad.py: ", "wanted a System"),
    ],
    ids=["syntax", "import", "name", "type"],
)
def test_a_broken_file_is_told_with_its_place(content, place, words, here):
    (here / "extensions" / "systems").mkdir(parents=True)
    (here / "extensions" / "systems" / "bad.py").write_text(content)
    done = verb("systems")
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert place in line
    assert words in line


@pytest.mark.parametrize("words", [["watch", "--once"], ["report", "-o", "out"]])
def test_results_are_read_without_a_broken_system_of_ones_own(words, here):
    directory = made_up.run(here, made_up.rows("ps", 4.0) + made_up.rows("mine", 3.0))
    (here / "extensions" / "systems").mkdir(parents=True)
    (here / "extensions" / "systems" / "bad.py").write_text("def broken(:\n")
    done = verb(*words, directory)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("warning: ")
    assert "bad.py:1:12: SyntaxError" in done.stderr
    if words[0] == "report":
        assert f"mine; your own systems are those in {here}" in done.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("PROTOCOL = 5\n", ":1: found PROTOCOL = 5, wanted a Protocol"),
        ("x = 1\n", ":1: found no PROTOCOL, wanted one"),
        ("\0", ":1: "),
        ("raise SystemExit(3)\n", ":1: SystemExit: 3"),
        (None, "bad: found no protocol.py, wanted one"),
    ],
    ids=["type", "none", "binary", "exit", "missing"],
)
def test_a_half_written_protocol_is_told_with_its_place(content, said, here):
    own = here / "extensions" / "protocols" / "bad"
    own.mkdir(parents=True)
    (own / "__init__.py").write_text("")
    if content is not None:
        (own / "protocol.py").write_text(content)
    done = verb("systems")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
    assert str(own) in line
    assert said in line


def test_a_protocols_number_that_is_none_is_told_with_its_place(here):
    invoke("new", "protocol", "own")
    path = here / "extensions" / "protocols" / "own" / "protocol.py"
    path.write_text(re.sub(r"number=\d+", "number='a'", path.read_text()))
    done = verb("systems")
    assert done.returncode == 2
    assert re.search(r"own/protocol.py:\d+: PROTOCOL has number = 'a', wanted int", done.stderr)


def test_a_protocol_that_is_no_package_is_told(here):
    invoke("new", "protocol", "own")
    (here / "extensions/protocols/own/__init__.py").unlink()
    done = verb("systems", "ring")
    assert done.returncode == 2
    assert "protocols/own: found no __init__.py, wanted one; add an empty file" in done.stderr


def test_a_file_without_a_system_is_named_where_a_system_is_missing(here):
    invoke("new", "system", "own")
    path = here / "extensions/systems/own.py"
    path.write_text(path.read_text().replace("SYSTEM =", "SYSTM ="))
    done = verb("systems", "nothere")
    assert done.returncode == 2
    assert re.search(r"your own systems are those in .*, where own\.py has no SYSTEM", done.stderr)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("plan=plan", "plan=None", "SYSTEM has plan = None, wanted Callable"),
        ("plan=plan", "plan=lambda: 1", "too many positional arguments"),
        ('name="own"', "name=None", "SYSTEM has name = None, wanted str"),
        ("servers=(0, 0)", 'servers=("a", None)', "servers = ('a', None), wanted tuple[int, int]"),
        ("options=OwnOptions", "options=int", "options = <class 'int'>, wanted type[Options]"),
        ('published=("One', 'published="text",  # ("One', "published = 'text', wanted tuple[str"),
        (r'colour="[^"]*"', "colour=None", "SYSTEM has colour = None, wanted str"),
        (r'colour="[^"]*"', 'colour="red"', "SYSTEM has colour = 'red', wanted a colour such as"),
        (r'marker="[^"]*"', 'marker="zz"', "SYSTEM has marker = 'zz', wanted one of . , o"),
        (r'colour="[^"]*"', 'colour="#1f77b4"', "SYSTEM has colour = '#1f77b4', which ring has, w"),
        ("servers=(0, 0)", "servers=(2, 1)", "SYSTEM has servers = (2, 1), wanted the fewest and"),
        ("default=0", 'default="x"', "SYSTEM has the option centre = 'x' by default, wanted anot"),
        ("ge=0", 'ge="x"', "SYSTEM has options that cannot be built (ValueError: 'ge' must be"),
        ('title="Own"', 'title="Ring"', "SYSTEM has title = 'Ring', which ring has, wanted"),
    ],
)
def test_a_half_written_system_is_told_with_its_place(old, new, said, here):
    invoke("new", "system", "own")
    path = here / "extensions" / "systems" / "own.py"
    pattern = old if old.startswith(("colour", "marker")) else re.escape(old)
    path.write_text(re.sub(pattern, new, path.read_text()))
    done = verb("validate", "own.yaml")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert re.search(r"extensions/systems/own.py:\d+: ", done.stderr)
    assert said in done.stderr


def own_system_that_draws(drawn, here):
    """The file of a system, whose plan holds what the expression ``drawn`` gives."""
    invoke("new", "system", "own")
    path = here / "extensions" / "systems" / "own.py"
    text = re.sub(r"    plan=plan,", "    plan=drawn,", path.read_text())
    made = (
        "import dataclasses\nimport random\n\nfrom testbed.plan.program import Pipelining\n\n\n"
        "def drawn(job, fabric):\n"
        f"    pieces = Pipelining({drawn})\n"
        "    return dataclasses.replace(plan(job, fabric), pipelining=pieces)\n\n\n"
    )
    path.write_text(text.replace("SYSTEM = System(", made + "SYSTEM = System("))
    return path


SEEDED = "random.Random(job.seed).randrange(4, 10**9)"


@pytest.mark.parametrize(
    "drawn", ["random.randrange(4, 10**9)", "4 + hash('a name') % 10**9", SEEDED]
)
def test_a_plan_that_is_another_one_each_time_is_refused(drawn, here):
    path = own_system_that_draws(drawn, here)
    done = verb("run", "own.yaml", "--dry-run")
    assert done.returncode == 2, done.stderr
    assert "own made two plans for the same job, wanted one" in done.stderr
    assert "draws_anew" in done.stderr
    assert str(path) in done.stderr


def test_a_plan_may_draw_anew_in_each_repeat_if_its_options_say_so(here):
    path = own_system_that_draws(SEEDED, here)
    last = "        examples=[0],\n    )\n"
    says = "\n    def draws_anew(self):\n        return True\n"
    path.write_text(path.read_text().replace(last, last + says))
    done = verb("run", "own.yaml", "--dry-run")
    assert done.returncode == 0, done.stderr


def test_each_new_system_looks_different(here):
    looks = []
    for name in ("own", "other"):
        invoke("new", "system", name)
        text = (here / "extensions" / "systems" / f"{name}.py").read_text()
        looks.append(re.findall(r'(colour|marker)="([^"]*)"', text))
        found = dict(looks[-1])
        for field in found:
            assert found[field] not in {getattr(each, field) for each in systems.values()}
        # This process has read its extensions already: register the new system by hand.
        systems[name] = replace(systems["ring"], **found)
    del systems["own"], systems["other"]
    assert looks[0][0] != looks[1][0]
    assert looks[0][1] != looks[1][1]


def test_the_markers_are_those_that_figures_know():
    assert {*MARKERS} == {each for each in Line2D.markers if isinstance(each, str)} - {
        "None", "none", " ", "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("own", "constant"),
    [(each, "SYSTEM") for each in systems.values()]
    + [(each, "PROTOCOL") for each in protocols.values()]
    + [(each.reference, "MODEL") for each in on_trees().values()],
)
def test_nothing_is_wrong_with_our_own(own, constant):
    assert not [*wrong_fields(own, constant)]


@pytest.mark.parametrize("name", ["sys", "registry"])
def test_a_name_that_the_registry_uses_is_refused(name, here):
    assert "the package of systems uses" in invoke("new", "system", name).output
    invoke("new", "system", "own")
    home = here / "extensions" / "systems"
    (home / "own.py").rename(home / f"{name}.py")
    done = verb("validate", "own.yaml")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert f"systems/{name}.py: found a name that the testbed uses itself" in done.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("MODEL = \n", "own/reference.py:1:9: SyntaxError: invalid syntax"),
        ("MODEL = None\n", "own/reference.py:1: found no MODEL, wanted one: a Model"),
        ("x = 1\n", "own/reference.py:1: found no MODEL, wanted one: a Model"),
        (None, "protocols/own: found no reference.py, wanted one"),
    ],
)
def test_a_half_written_reference_is_told_with_its_place(content, said, here):
    invoke("new", "protocol", "own")
    path = here / "extensions" / "protocols" / "own" / "reference.py"
    path.unlink()
    if content is not None:
        path.write_text(content)
    program = str(folder("p4") / "build" / "ina.json")
    done = verb("conform", program, "--protocol", "own", "--sequences", "1")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    assert said in done.stderr


def test_a_pipe_among_a_users_systems_is_refused(here):
    (here / "extensions" / "systems").mkdir(parents=True)
    os.mkfifo(here / "extensions" / "systems" / "bad.py")
    done = verb("systems")
    assert done.returncode == 2
    assert "systems/bad.py: found no regular file" in done.stderr


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ("    return 1 / 0\n", "own.py:22: ZeroDivisionError"),
        ("    return Plan('own', job.workers, len(job.workers), 1, ((),) * 8)\n", "own: "),
        ("    return None  # \n", "own.py:18: plan: found None, wanted a Plan"),
        ("    raise SystemExit(5)\n", "own.py:22: SystemExit: 5"),
    ],
)
def test_a_wrong_plan_is_an_error_of_the_experiment(plan, words, here):
    invoke("new", "system", "own")
    path = here / "extensions" / "systems" / "own.py"
    head, options, rest = path.read_text().partition("    options = SYSTEM.settle({})")
    path.write_text(head + plan + options + rest)
    words = words.replace("22", str(head.count("\n") + 1))
    words = words.replace("18", str(head[: head.index("def plan(")].count("\n") + 1))
    done = verb("validate", "own.yaml")
    assert done.returncode == 2
    assert "own.yaml:19:3: own resnet50 repeat 1: " in done.stderr
    assert words in done.stderr


@pytest.mark.parametrize("call", [["validate"], ["run", "--dry-run"]])
@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("NotImplementedError", "NotImplementedError: "),
        ("RuntimeError('so')", "RuntimeError: so"),
        ("OSError(2, 'no', 'x.csv')", "FileNotFoundError: [Errno 2] no: 'x.csv'"),
        ("SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_an_error_outside_a_plan_is_told_with_its_place(error, said, call, here):
    invoke("new", "system", "own")
    path = here / "extensions" / "systems" / "own.py"
    head, options, rest = path.read_text().partition("class OwnOptions(Options):\n")
    own = f"    def draws_anew(self) -> bool:\n        raise {error}\n\n"
    path.write_text(head + options + own + rest)
    line = (head + options + own).count("\n") - 1
    done = verb(*call, "own.yaml")
    assert done.returncode == 2
    assert f"Error: {path}:{line}: {said}" in done.stderr


def test_the_name_of_a_built_in_module_is_refused(here):
    (here / "extensions" / "protocols" / "atp").mkdir(parents=True)
    (here / "extensions" / "protocols" / "atp" / "__init__.py").write_text("")
    done = verb("systems")
    assert done.returncode == 2
    assert "extensions/protocols/atp: found the name of a built-in protocol" in done.stderr


def test_folders_may_be_listed(here, monkeypatch):
    invoke("new", "system", "own", "-o", "elsewhere")
    assert "own " not in verb("systems").stdout
    monkeypatch.setenv(extensions.VARIABLE, str(here / "elsewhere" / "extensions"))
    assert "\nown " in verb("systems").stdout
    monkeypatch.setenv(extensions.VARIABLE, "nowhere")
    done = verb("systems")
    assert done.returncode == 2
    assert "nowhere, wanted a folder" in done.stderr


def test_the_version_of_a_row_depends_on_a_users_own_files(here, monkeypatch):
    from testbed.campaign import version

    def digest(backend: str | None) -> str:
        return version._code_of.__wrapped__(backend, frozenset({"ring"}))

    before, ring = digest(None), digest("packet")
    invoke("new", "system", "own")
    with_own = digest(None)
    path = here / "extensions" / "systems" / "own.py"
    path.write_text(path.read_text() + "X = 1\n")
    assert len({before, with_own, digest(None)}) == 3
    assert digest("packet") == ring
    monkeypatch.setattr(version, "home", lambda system: path)
    own = digest("packet")
    path.write_text(path.read_text() + "Y = 1\n")
    assert len({ring, own, digest("packet")}) == 3


def test_a_file_made_meanwhile_is_kept(tmp_path, monkeypatch):
    mine = tmp_path / "extensions" / "systems" / "mine.py"
    mine.parent.mkdir(parents=True)
    mine.write_text("somebody's")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "exists", lambda path: False)  # as it was a moment ago
        with pytest.raises(FileExistsError):
            skeletons.write("system", "mine", tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [mine]
    assert mine.read_text() == "somebody's"
