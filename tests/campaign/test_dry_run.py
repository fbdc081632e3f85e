"""The output of a dry run."""

from __future__ import annotations

from tiny import file
from verbs import invoke


def dry_run(path, *more):
    words = ["run", "--dry-run", str(path), "-o", str(path.parent / "out"), *more]
    done = invoke(*words)
    assert done.exit_code == 0, done.output
    assert not (path.parent / "out").exists()
    return done


def test_cells_are_listed_in_their_order_with_their_times(tmp_path):
    path = file(
        tmp_path, sweep={"jobs.0.system": ["ps", "ring"]}, emulation__repeats=2, backend="simulate"
    )
    done = dry_run(path)
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert [line.partition("repeat ")[2][0] for line in lines] == ["1", "1", "2", "2"]
    assert all(line.endswith("about 1 s") for line in lines)
    assert len({line.split()[0] for line in lines}) == 2
    assert done.stderr == "4 cells, about 4 s one at a time\n"


def test_what_a_sweep_sets_is_told_briefly(tmp_path):
    fabrics = [
        {"kind": "leaf-spine", "spines": 1, "leaves": 2, "hosts_per_leaf": [3, 4]},
        {"kind": "fat-tree", "k": 4},
    ]
    sweep = {
        "product": {"fabric": [{**each, "host_rate": "10Gbit"} for each in fabrics]},
        "zip": {"jobs.0.system": ["ps", "atp"], "jobs.0.options": [{}, {"window": 32}]},
        "exclude": [{"fabric": {**fabrics[1], "host_rate": "10Gbit"}, "jobs.0.system": "ps"}],
    }
    path = file(tmp_path, sweep=sweep, backend="simulate")
    told = {line.partition(" ")[2].strip() for line in dry_run(path).stdout.splitlines()}
    leaf_spine = "fabric=leaf-spine(spines=1,leaves=2,hosts_per_leaf=[3,4],host_rate=10Gbit)"
    trace = tmp_path / "tiny.trace"
    assert told == {
        f"ps {trace} {leaf_spine} options=() repeat 1  about 1 s",
        f"atp {trace} {leaf_spine} options=(window=32) repeat 1  about 1 s",
        f"atp {trace} fabric=fat-tree(k=4,host_rate=10Gbit) options=(window=32) repeat 1"
        "  about 1 s",
    }
