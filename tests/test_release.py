"""A release gives the same facts everywhere, and its containers and commands are well formed."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from test_workflows import parse

import testbed

ROOT = Path(__file__).parents[1]
INSTRUCTIONS = {
    "FROM",
    "RUN",
    "WORKDIR",
    "COPY",
    "CMD",
    "ENV",
    "ARG",
    "ENTRYPOINT",
    "LABEL",
    "USER",
}
SCRIPTS = [ROOT / ".ci" / "p4lang", ROOT / ".ci" / "run", *ROOT.glob("*.sh")]


def instructions() -> list[tuple[str, str]]:
    """The container file's instructions, with lines joined and without comments."""
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("#"))
    whole = re.sub(r"\\\n\s*", "", text).splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in whole if line)]


def parts(command: str) -> list[list[str]]:
    """The simple commands of a shell line, as words."""
    return [shlex.split(each) for each in command.split("&&")]


def can_be_called(command: str) -> bool:
    return all(
        os.access(ROOT / words[0], os.X_OK) for words in parts(command) if words[0][:2] == "./"
    )


def test_the_version_is_told_once_and_repeated_rightly():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    heading = re.search(r"^## (\S+), (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert citation["version"] == heading[1] == testbed.__version__
    assert citation["date-released"] == heading[2]
    assert citation["cff-version"] == "1.2.0"
    assert citation.keys() >= {"message", "title", "authors", "license", "type"}
    assert all(author.keys() & {"name", "family-names"} for author in citation["authors"])
    assert 'version = {attr = "testbed.__version__"}' in (ROOT / "pyproject.toml").read_text()


def test_the_container_file_is_well_formed():
    found = instructions()
    assert found[0][0] == "FROM"
    assert {word for word, _ in found} <= INSTRUCTIONS
    for word, rest in found:
        assert rest, word
        if word == "RUN":
            subprocess.run(["bash", "-n", "-c", rest], check=True)
            assert can_be_called(rest)
    (command,) = [json.loads(rest) for word, rest in found if word == "CMD"]
    assert can_be_called(shlex.join(command))
    assert command == ["./run_all.sh", "--quick"]


def test_the_container_leaves_out_what_belongs_to_a_machine():
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".venv", "results", ".git"} <= {*ignored}


def test_the_dev_container_is_well_formed():
    found = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    assert found.keys() <= {
        "name", "image", "privileged", "onCreateCommand", "postCreateCommand", "customizations",
    }  # fmt: skip
    assert found["privileged"] is True  # network namespaces
    for name in ("onCreateCommand", "postCreateCommand"):
        subprocess.run(["bash", "-n", "-c", found[name]], check=True)
        assert can_be_called(found[name])
    (schema,) = found["customizations"]["vscode"]["settings"]["yaml.schemas"]
    assert (ROOT / schema).is_file()
    (base,) = [rest for word, rest in instructions() if word == "FROM"]
    assert found["image"] == base


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_sound(path):
    subprocess.run(["bash", "-n", path], check=True)
    assert os.access(path, os.X_OK)


def commands(text: str) -> list[list[str]]:
    """The arguments of each `ina-testbed` in a document's code."""
    spans = re.findall(r"^    (.+)$|`([^`\n]+)`", text, re.MULTILINE)
    lines = [(block or span).partition("  #")[0] for block, span in spans]
    found = [shlex.split(line) for line in lines if re.match(r"(sudo )?(\S+/)?ina-testbed ", line)]
    return [words[1 + (words[0] == "sudo") :] for words in found]


def test_the_artefacts_commands_are_ours_and_name_what_is_here(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    found = commands((ROOT / "ARTIFACT.md").read_text())
    assert len(found) > 8
    for arguments in found:
        if "experiment|system|protocol|workload" in arguments:
            arguments = ["new", "system", "mine"]
        words = [str(tmp_path) if "<time>" in word or word == "DIR" else word for word in arguments]
        parse(words)
        for word in words:
            if word.startswith(("experiments/", "reports/")):
                assert (ROOT / word).exists(), word


def test_the_artefacts_links_lead_somewhere():
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / "ARTIFACT.md").read_text())
    assert links
    for link in links:
        assert (ROOT / link).exists(), link
