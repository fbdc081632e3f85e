import pandas as pd

from testbed.report.answer import above, markdown, often_first
from testbed.report.differences import Difference
from testbed.report.ranking import Ranking
from testbed.report.settings import PLACE, SERIES, SETTING


def ranking(system, tied=False):
    row = {"system": system, "plans": (), "backend": "packet"}
    other = Difference(row, row | {"system": "other"}, 1.01 if tied else 2.0, (1, 2), 0.01, 0.02, 4)
    return Ranking({}, row, [other])


def test_a_system_that_often_leads_alone_is_known():
    assert often_first([ranking("osp"), ranking("ring"), ranking("rina", tied=True)]) == "osp"
    assert often_first([ranking("osp", tied=True)] * 3) == ""
    assert often_first([]) == ""
    assert often_first([Ranking({}, {"system": "osp"}, [])]) == ""
    assert often_first([ranking("osp"), *[ranking("ring", tied=True)] * 3]) == ""


def test_means_far_above_the_closed_form_are_listed_with_their_notes():
    place = dict.fromkeys([*SETTING, *PLACE, *SERIES], "") | {
        "backend": "packet",
        "fabric": "fat-tree",
        "workload": "resnet50",
        "conditions": "{}",
        "ina": "none",
    }
    common = {"jct_s": 1.2, "routed_jct_s": 1.0, "retransmitted": 7.0}
    means = pd.DataFrame(
        [
            place | common | {"system": "ps", "routed_error": 0.2},
            place | common | {"system": "ring", "routed_error": 0.09},
            place | common | {"system": "ps", "backend": "simulate", "routed_error": 0.2},
        ]
    )
    rows = pd.DataFrame(
        [
            place | {"system": "ps", "notes": None},
            place | {"system": "ps", "notes": "TCP timed out 3 times"},
            place | {"system": "ring", "notes": "other"},
        ]
    )
    columns, found = above(means, rows, {("ps", ""): "PS", ("ring", ""): "Ring"})
    (only,) = found
    told = dict(zip(columns, only, strict=True))
    assert told["system"] == "PS"
    assert (told["times as long"], told["retransmitted"]) == ("1.2", "7")
    assert told["seen"] == "TCP timed out 3 times"


def test_a_cell_of_markdown_is_text():
    table = (["a|b", "c"], [["x < y", "p & q"], ["1 | 2", "plain"]])
    assert markdown(table).splitlines() == [
        "| a\\|b | c |",
        "| --- | --- |",
        "| x &lt; y | p &amp; q |",
        "| 1 \\| 2 | plain |",
    ]
