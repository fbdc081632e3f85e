"""Text that is made from the code: it replaces a line ``<!-- generated: NAME ARGUMENTS -->``.

Nothing is written to the source folder, so no page can be out of date.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import os
import posixpath
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import yaml
from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
DOCS = Path(__file__).resolve().parent
_MARK = re.compile(
    r"^<!-- generated: (\S+) ?(.*?) -->$(?:\n\[This note\]\(.*\) is .*)?", re.MULTILINE
)
"""A place that is written when the site is built; the line below is for readers of the files."""
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_LISTING = re.compile(r"^```\{code-block\} \w+\n:caption: (\S+)\n\n(.*?)^```$", re.M | re.S)
_PICTURE = re.compile(r"!\[([^\]]*)\]\((figures/[^)\s]+|[\w-]+\.(?:png|svg))\)")


def fill(app: Sphinx, page: str, source: list[str]) -> None:
    """Replace the marks of a page (Sphinx's event source-read)."""

    def written(mark: re.Match[str]) -> str:
        if mark[1] == "figure":
            return figure(page, mark[2], Path(app.doctreedir) / "figures")
        return _WRITERS[mark[1]](page, mark[2])

    source[0] = _MARK.sub(written, source[0])


def figure(page: str, argument: str, folder: Path) -> str:
    """The figure that a command makes now, and how long that took: ``COMMAND -> NAME``.

    The command finds the page's own files, and the shipped experiments.
    """
    command, _, name = argument.partition(" -> ")
    where = folder / hashlib.sha256(command.encode()).hexdigest()[:10]
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
    (where / "experiments").symlink_to(ROOT / "experiments")
    for file, text in _LISTING.findall((DOCS / f"{page}.md").read_text()):
        (where / file).write_text(text)
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "testbed.cli", *shlex.split(command)[1:]],
        cwd=where,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
        capture_output=True,
        check=True,
    )
    seconds = time.monotonic() - began
    found = _drawn(where.rglob(f"{name}.*"))
    said = f"`{command}` took {seconds:.0f} s when this page was made."
    return f"![{name}]({_from(page, found[0])})\n\n{said}"


def picture(page: str, argument: str) -> str:
    """A figure of a report, in the format that the report has: ``PATH CAPTION``."""
    path, _, caption = argument.partition(" ")
    found = _drawn((ROOT / path).parent.glob(f"{Path(path).name}.*"))
    return f"![{caption}]({_from(page, found[0])})"


def _drawn(paths: Iterable[Path]) -> list[Path]:
    """The figures among ``paths``, each once: as SVG if there is one."""
    found: dict[str, Path] = {}
    for path in sorted(paths):
        if path.suffix in (".png", ".svg"):
            found[path.stem] = path
    return list(found.values())


def verbs(page: str, argument: str) -> str:
    """``--help`` of every verb, in the order of ``ina-testbed --help``."""
    from testbed.cli import main

    outer = click.Context(main, info_name="ina-testbed", max_content_width=80, terminal_width=80)
    return "\n\n".join([_helped(main, outer), *_helps(main, outer)])


def _helps(group: click.Group, outer: click.Context) -> Iterator[str]:
    for name in group.list_commands(outer):
        command = group.get_command(outer, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=outer, terminal_width=80)
        path = inner.command_path.removeprefix("ina-testbed ")
        yield f"## {path}\n\n{_helped(command, inner)}"
        if isinstance(command, click.Group):
            yield from _helps(command, inner)


def _helped(command: click.Command, context: click.Context) -> str:
    return f"```text\n{command.get_help(context)}\n```"


def schema(page: str, argument: str) -> str:
    """Every key of an experiment file, from the JSON schema."""
    from testbed.experiment.jsonschema import schema as whole
    from testbed.systems import registry

    found = whole(registry)
    named = found["$defs"]
    parts = [_keys("The file", found)]
    for name, kind in (
        ("fabric: leaf-spine", "LeafSpine"),
        ("fabric: fat-tree", "FatTree"),
        ("fabric: circuits", "Circuits"),
        ("fabric: graph", "Graph"),
        ("fabric.links of a graph", "GraphLink"),
        ("jobs", "Job"),
        ("jobs.compute", "Compute"),
        ("jobs.compute.stragglers", "Stragglers"),
        ("jobs.training", "Training"),
        ("emulation", "Emulation"),
        ("emulation.faults", "Fault"),
        ("sweep", "Sweep"),
    ):
        parts.append(_keys(name, named.pop(kind)))
    own = {key for key in named if key.startswith("options-")}
    parts += [_keys(key, named[key]) for key in sorted(set(named) - own)]
    return "\n\n".join(parts)


def _keys(title: str, model: Mapping[str, Any]) -> str:
    said = model.get("description", "")
    return f"## {title}\n\n{said}\n\n{_table(model)}"


def _table(model: Mapping[str, Any]) -> str:
    """A model's fields: name, what it is, default, example."""
    needed = model.get("required", ())
    rows = ["| key | what | default | example |", "| --- | --- | --- | --- |"]
    for name, field in model.get("properties", {}).items():
        default = "*needed*" if name in needed else _literal(field.get("default", "unset"))
        examples = field.get("examples", ())
        example = _literal(examples[0]) if examples else ""
        rows.append(f"| `{name}` | {_cell(field.get('description', ''))} | {default} | {example} |")
    return "\n".join(rows) if len(rows) > 2 else "No keys."


def _literal(value: object) -> str:
    if value is None:
        return "unset"
    if isinstance(value, dict) and len(value) > 5:
        return "see below"
    flow = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6)
    text = value if isinstance(value, str) else flow.removesuffix("...\n").strip()
    return f"`{_cell(text)}`" if text else "empty"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def systems(page: str, argument: str) -> str:
    """Each system's declarations and options."""
    from testbed.experiment.jsonschema import schema as whole
    from testbed.studies.declared import facts
    from testbed.systems import registry

    options = whole(registry)["$defs"]
    parts = []
    for name, system in sorted(registry.items()):
        table = _table(options[f"options-{name}"])
        parts.append(
            f"## {name}\n\n**{system.title}.** {system.citation}\n\n{'; '.join(facts(system))}.\n\n"
            f"{_rules(system)}\n\nOptions:\n\n{table if '`' in table else 'none.'}"
        )
    return "\n\n".join(parts)


def protocols(page: str, argument: str) -> str:
    """Each protocol's declarations."""
    from testbed.protocols import registry

    return "\n\n".join(
        f"## {name}\n\n{each.citation}\n\n{_rules(each)}\n\nA lost packet: {each.loss}"
        for name, each in sorted(registry.items())
    )


def _rules(declared: Any) -> str:
    parts = []
    for title, rules in (("Published", declared.published), ("Our reading", declared.reading)):
        if rules:
            parts.append(f"{title}:\n\n" + "\n".join(f"- {_plain(rule)}" for rule in rules))
    return "\n\n".join(parts)


def _plain(text: str) -> str:
    """Text in which Markdown finds no marks."""
    return re.sub(r"([*_<>\[\]])", r"\\\1", text)


def note(page: str, path: str) -> str:
    """A design note, with links that lead to its pages here, or else name files."""
    here = posixpath.dirname(path)

    def linked(found: re.Match[str]) -> str:
        picture, label, target = found.groups()
        if target.startswith(("#", "http:", "https:")):
            return found[0]
        file, _, anchor = target.partition("#")
        file = posixpath.normpath(posixpath.join(here, file))
        if picture:
            return f"![{label}]({_from(page, ROOT / file)})"
        if file in _notes():
            target = f"{_from(page, DOCS / _notes()[file])}{'#' * bool(anchor)}{anchor}"
            return f"[{label}]({target})"
        if (ROOT / file).is_relative_to(DOCS):
            return f"[{label}]({_from(page, ROOT / file)}{'#' * bool(anchor)}{anchor})"
        return f"`{file}`" if label.strip("`") in file else f"{label} (`{file}`)"

    return _LINK.sub(linked, (ROOT / path).read_text())


def _notes() -> dict[str, str]:
    """The page of each file that a page takes as a note."""
    found = {}
    for page in DOCS.glob("notes/*.md"):
        for name, argument in _MARK.findall(page.read_text()):
            if name == "note":
                found[argument] = page.relative_to(DOCS).as_posix()
    return found


def _from(page: str, path: Path) -> str:
    return Path(os.path.relpath(path, (DOCS / page).parent)).as_posix()


def table(page: str, argument: str) -> str:
    """A table of a Markdown file: the columns that are named, or all."""
    path, _, wanted = argument.partition(" ")
    lines = [line for line in (ROOT / path).read_text().splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    names = wanted.split(", ") if wanted else rows[0]
    kept = [rows[0].index(name) for name in names]
    return "\n".join(f"| {' | '.join(row[at] for at in kept)} |" for row in rows)


def fields(page: str, name: str) -> str:
    """The fields of a dataclass, with the text that its docstring has for each."""
    module, _, kind = name.rpartition(".")
    found = getattr(import_module(module), kind)
    text, _, attributes = (inspect.getdoc(found) or "").partition("\nAttributes:\n")
    said: dict[str, str] = {}
    for entry in re.split(r"\n(?=    \S)", "\n" + attributes.rstrip()):
        names, _, words = entry.strip().partition(":")
        said |= {each: words for each in names.split(", ")}
    rows = ["| field | type | what |", "| --- | --- | --- |"]
    for field in dataclasses.fields(found):
        if field.name.startswith("_"):
            continue
        kind = _cell(str(field.type).replace("Mapping[str, Any]", "mapping"))
        rows.append(
            f"| `{field.name}` | `{kind}` | {_cell(_markdown(said.get(field.name, '').strip()))} |"
        )
    return f"{_markdown(text.strip())}\n\n" + "\n".join(rows)


def _markdown(text: str) -> str:
    """A docstring's literals as Markdown's."""
    return text.replace("``", "`")


def gallery(page: str, argument: str) -> str:
    """Every figure of the reports, with the files and commands that made it, and their time."""
    parts = []
    for folder in sorted((ROOT / "reports").iterdir()):
        shown = []
        for document in ("README.md", "report.md", "claims.md"):
            path = folder / document
            shown += _PICTURE.findall(path.read_text()) if path.exists() else []
        captions = {Path(file).stem: caption for caption, file in reversed(shown)}
        drawn = _drawn([*folder.glob("figures/*"), *folder.glob("claims-*")])
        if drawn:
            parts.append(f"### reports/{folder.name}\n\n{_made(folder)}")
        for path in drawn:
            caption = captions.get(path.stem, path.stem)
            parts.append(f"#### {path.stem}\n\n![{caption}]({_from(page, path)})")
            parts.append(textwrap.shorten(caption, 300) if caption != path.stem else "")
    return "\n\n".join(parts)


def _made(folder: Path) -> str:
    """Which runs a report shows: their files, commands and times."""
    from testbed.report.runs import duration, seconds

    lines = ["| file | command | time | processor |", "| --- | --- | --- | --- |"]
    for path in sorted([*folder.glob("run.json"), *folder.glob("*/run.json")]):
        run = json.loads(path.read_text())
        name = re.search(r"^name: (\S+)", (path.parent / "experiment.yaml").read_text(), re.M)
        assert name is not None
        parts = 1 + len(run.get("resumed", []))
        taken = seconds(run)
        took = duration(taken) if taken is not None else f"in {parts} parts"
        lines.append(
            f"| `{name[1]}.yaml` | `{run['command']}` | {took} |"
            f" {run['cpu']}, {run['cores']} cores |"
        )
    claims = folder / "claims.md"
    found = re.search(r"^Made by `.*$", claims.read_text(), re.M) if claims.exists() else None
    return "\n".join(lines) + (f"\n\nClaims: {found[0][0].lower()}{found[0][1:]}" if found else "")


_WRITERS: Mapping[str, Callable[[str, str], str]] = {
    each.__name__: each
    for each in (verbs, schema, systems, protocols, note, table, fields, picture, gallery)
}
