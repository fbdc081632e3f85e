from testbed.report.answer import often_first
from testbed.report.differences import Difference
from testbed.report.ranking import Ranking


def ranking(system, tied=False):
    row = {"system": system, "plans": (), "backend": "packet"}
    other = Difference(row, row | {"system": "other"}, 1.01 if tied else 2.0, (1, 2), 0.01, 0.02)
    return Ranking({}, row, [other])


def test_a_system_that_often_leads_alone_is_known():
    assert often_first([ranking("osp"), ranking("ring"), ranking("rina", tied=True)]) == "osp"
    assert often_first([ranking("osp", tied=True)] * 3) == ""
    assert often_first([]) == ""
    assert often_first([Ranking({}, {"system": "osp"}, [])]) == ""
    assert often_first([ranking("osp"), *[ranking("ring", tied=True)] * 3]) == ""
