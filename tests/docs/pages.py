"""The files and commands of a page of the documentation.

A file is a listing with a caption, which names it:

    ```{code-block} yaml
    :caption: first.yaml

Commands and their output are in a session. ``...`` stands for any text, as in doctest, and a
comment gives the exit code:

    ```console
    $ ina-testbed validate wrong.yaml  # exit code 2
    wrong.yaml:19:25: ...

A comment on the line before a session says what it needs, or why it is not run:

    % needs: torch
    % not run: changes the machine
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_LISTING = re.compile(
    r"^```\{code-block\} \w+\n:caption: (?P<name>\S+)\n\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_SESSION = re.compile(
    r"(?:^% (?P<mark>needs|not run): (?P<what>[^\n]+)\n)?^```console\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_CODE = re.compile(r"  # exit code (\d)$")


@dataclass(frozen=True)
class File:
    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """``printed``: the output that the page shows; ``needs`` and ``not_run``: see above."""

    line: str
    printed: str
    exit_code: int = 0
    needs: str = ""
    not_run: str = ""


def steps(page: Path) -> list[File | Command]:
    """The files and commands of a page, in its order."""
    text = page.read_text()
    found: list[tuple[int, File | Command]] = [
        (each.start(), File(each["name"], each["text"])) for each in _LISTING.finditer(text)
    ]
    for session in _SESSION.finditer(text):
        what = {"needs": "", "not run": "", session["mark"]: session["what"]}
        for part in re.split(r"^\$ ", session["text"], flags=re.MULTILINE)[1:]:
            line, _, printed = part.replace("\\\n", "").partition("\n")
            code = _CODE.search(line)
            command = Command(
                line, printed, int(code[1]) if code else 0, what["needs"], what["not run"]
            )
            found.append((session.start(), command))
    return [step for _, step in sorted(found, key=lambda each: each[0])]
