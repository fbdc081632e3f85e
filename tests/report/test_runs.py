import pytest

from testbed.report import runs

ENDED = "2026-11-25T05:06:07Z"


@pytest.mark.parametrize(
    "metadata",
    [
        {"finished_at": ENDED},
        {"started_at": ENDED, "finished_at": "2026"},
        {"started_at": ENDED, "finished_at": ENDED, "resumed": [3]},
    ],
)
def test_a_strange_run_json_does_not_say_how_long_the_run_took(metadata):
    assert runs.seconds(metadata) is None
