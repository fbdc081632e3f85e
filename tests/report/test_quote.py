"""Documents quote numbers of the reference evaluation."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from testbed.report import quote
from testbed.report.quote import Unquotable, filled


@pytest.fixture
def reference(tmp_path):
    (tmp_path / "winners.md").write_text("| who |\n| --- |\n| ATP |\n")
    (tmp_path / "claims.csv").write_text(
        "claim,shown,number\none,1.5,1.54321\ntwo,2.5 (2 to 3),2.5\n"
    )
    return tmp_path


def test_quotations_are_filled_and_stay_filled(reference):
    text = "It is <!-- quote claims.csv claim=two shown -->old<!-- /quote -->.\n"
    text += "<!-- quote winners.md --><!-- /quote -->\n"
    once = filled(text, reference)
    assert "shown -->2.5 (2 to 3)<!-- /quote -->." in once
    assert "<!-- quote winners.md -->\n| who |\n| --- |\n| ATP |\n<!-- /quote -->" in once
    assert filled(once, reference) == once
    rounded = filled("<!-- quote claims.csv claim=one number --><!-- /quote -->", reference)
    assert "-->1.54<!--" in rounded
    (reference / "winners.md").write_text("| who |\n| --- |\n| ATP |\n| PS |\n| ATP 2 |\n")
    some = filled("<!-- quote winners.md ATP --><!-- /quote -->", reference)
    assert "\n| who |\n| --- |\n| ATP |\n| ATP 2 |\n" in some
    assert filled("nothing is quoted", reference) == "nothing is quoted"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("losers.md", "found no losers.md"),
        ("winners.md ESA", "found no row with ESA"),
        ("claims.csv claim=three shown", "no such row"),
        ("claims.csv claim=two seen", "no column seen"),
    ],
)
def test_what_cannot_be_quoted_is_told(reference, asked, said):
    with pytest.raises(Unquotable, match=said):
        filled(f"<!-- quote {asked} --><!-- /quote -->", reference)


def test_the_command_fills_or_checks(reference, monkeypatch):
    monkeypatch.setattr(quote.filled, "__defaults__", (reference,))
    document = reference / "document.md"
    document.write_text("<!-- quote claims.csv claim=one shown -->?<!-- /quote -->")
    runner = CliRunner()
    assert runner.invoke(quote.main, ["--check", str(document)]).exit_code == 1
    assert "-->?<!--" in document.read_text()
    assert runner.invoke(quote.main, [str(document)]).exit_code == 0
    assert "-->1.5<!--" in document.read_text()
    assert runner.invoke(quote.main, ["--check", str(document)]).exit_code == 0


def test_a_runs_metadata_can_be_quoted(tmp_path):
    run = {"started_at": "2026-01-01T23:58:00Z", "finished_at": "2026-01-02T00:01:07Z", "cores": 2}
    (tmp_path / "run.json").write_text(json.dumps(run))
    text = (
        "<!-- quote run.json took --><!-- /quote --> <!-- quote run.json cores --><!-- /quote -->"
    )
    assert ">3 min 07 s<" in filled(text, tmp_path)
    assert ">2<" in filled(text, tmp_path)
    later = {"started_at": "2026-01-03T10:00:00Z", "ended_at": "2026-01-03T10:01:00Z"}
    both = run | {"ended_at": "2026-01-01T23:59:00Z", "resumed": [later]}
    (tmp_path / "run.json").write_text(json.dumps(both))
    assert ">2 min 00 s<" in filled(text, tmp_path)
    with pytest.raises(Unquotable, match=r"run\.json has no colour"):
        filled("<!-- quote run.json colour --><!-- /quote -->", tmp_path)
    for untold in ({"finished_at": None}, {"resumed": [{"started_at": "2026-01-02T00:00:00Z"}]}):
        (tmp_path / "run.json").write_text(json.dumps(run | untold))
        with pytest.raises(Unquotable, match="has no took"):
            filled("<!-- quote run.json took --><!-- /quote -->", tmp_path)
