"""The doctor reports what is there, what is missing and what that costs, and leaves no traces."""

from __future__ import annotations

import os
import shutil

import pytest

from testbed.machine import doctor


def by_name():
    return {check.name: check for check in doctor.checks()}


def test_every_complaint_says_how_to_fix_it():
    for check in doctor.checks():
        assert check.detail
        if check.status != "ok" and check.name != "kernel":
            assert check.fix, check


def test_a_missing_tool_is_named_with_its_package(monkeypatch):
    found = shutil.which
    monkeypatch.setattr(
        shutil, "which", lambda name, **more: None if name == "tc" else found(name, **more)
    )
    check = by_name()["tc"]
    assert check.status == "missing"
    assert "iproute2" in check.fix


def test_without_root_nothing_is_tried(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    checks = by_name()
    assert checks["root"].status == "missing"
    assert checks["kernel"].status == "limited"
    assert "veth" not in checks


def test_a_compiler_that_cannot_compile_is_missing(monkeypatch):
    monkeypatch.setenv("CC", "false")
    assert by_name()["C compiler"].status == "missing"
    monkeypatch.setenv("CC", "no-such-compiler")
    assert "not installed" in by_name()["C compiler"].detail


def test_bmv2_and_p4c_are_not_needed(monkeypatch):
    found = shutil.which
    gone = ("simple_switch", "p4c-bm2-ss")
    monkeypatch.setattr(
        shutil, "which", lambda name, **more: None if name in gone else found(name, **more)
    )
    checks = by_name()
    assert checks["BMv2"].status == checks["p4c"].status == "limited"


@pytest.mark.parametrize(("content", "status"), [(b"", "ok"), (doctor._LOGGED, "limited")])
def test_a_bmv2_that_may_log_is_slower(content, status, monkeypatch, tmp_path):
    switch = tmp_path / "simple_switch"
    switch.write_bytes(b"#!/bin/sh\necho 1.0\n#" + content)
    switch.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    check = by_name()["BMv2 build"]
    assert check.status == status
    assert bool(check.fix) == (status == "limited")


def test_what_limits_timing_and_verdicts_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "_PRESSURE", tmp_path / "none")
    monkeypatch.setattr("testbed.machine.doctor.time.clock_getres", lambda clock: 0.004)
    checks = by_name()
    assert checks["pressure"].status == "limited"
    assert checks["timers"].status == "limited"
    assert "4 ms" in checks["timers"].detail


@pytest.mark.root
def test_features_are_tried_in_a_namespace_that_goes_away(monkeypatch):
    before = os.listdir("/sys/class/net"), os.listdir("/proc/self/ns")
    assert by_name()["veth"].status == "ok"
    assert (os.listdir("/sys/class/net"), os.listdir("/proc/self/ns")) == before
    monkeypatch.setitem(doctor._FEATURES, "odd", ("ip link add x type no_such_kind", "nothing"))
    odd = by_name()["odd"]
    assert odd.status == "missing"
    assert "kind" in odd.detail or "type" in odd.detail


@pytest.mark.root
def test_root_without_rights_is_told_so_once(monkeypatch, tmp_path):
    refusing = tmp_path / "unshare"
    refusing.write_text("#!/bin/sh\necho 'unshare: Operation not permitted' >&2; exit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (check,) = doctor.kernel()
    assert (check.name, check.status) == ("namespaces", "missing")
    assert "--privileged" in check.fix
