"""``setup``: what is missing, what is installed, and who may install it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from typing import Any

import pytest
from verbs import invoke

from testbed.backends.emulation.network import TOOLS
from testbed.machine import doctor
from testbed.machine.doctor import Check

MISSING = Check("tc", "missing", "not installed", "apt-get install iproute2", ("iproute2",))
OPTIONAL = Check("nft", "limited", "not installed", "apt-get install nftables", ("nftables",))
ELSEWHERE = Check("BMv2", "limited", "not installed", "p4lang-bmv2, from p4lang's packages")
FINE = Check("ip", "ok", "/sbin/ip", packages=("iproute2",))


@pytest.fixture
def machine(monkeypatch):
    """Calls `setup` on a machine with some checks; apt-get makes all of them ok."""
    state: dict[str, Any] = {"checks": [], "apt": [], "works": True}

    def run(command, **how):
        state["apt"].append(command)
        assert how["env"]["DEBIAN_FRONTEND"] == "noninteractive"
        if state["works"] and "install" in command:
            state["checks"] = [c for c in state["checks"] if not {*c.packages} & {*command}]
        return subprocess.CompletedProcess(command, int(not state["works"]), "", "no network")

    monkeypatch.setattr(doctor, "packaged", lambda: state["checks"])
    monkeypatch.setattr(doctor, "kernel", lambda: iter([Check("htb", "ok", "shapes every link")]))
    monkeypatch.setattr("testbed.machine.installing.subprocess.run", run)
    monkeypatch.setattr("testbed.machine.installing.shutil.which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    def call(*arguments, checks=(), works=True):
        state.update(checks=[*checks], apt=[], works=works)
        done = invoke("setup", *arguments)
        return done.exit_code, done.output, state["apt"]

    return call


def test_only_what_is_lacking_is_told(machine):
    code, said, apt = machine(checks=[FINE, MISSING, OPTIONAL, ELSEWHERE])
    assert code == 1
    assert "missing  tc " in said
    assert "p4lang's packages" in said
    assert "setup --install installs iproute2 nftables\n" in said
    assert "/sbin/ip" not in said
    assert not apt


@pytest.mark.parametrize("checks", [[FINE], [FINE, OPTIONAL], [ELSEWHERE]])
def test_what_is_optional_may_be_missing(checks, machine):
    code, said, _ = machine(checks=checks)
    assert code == 0
    assert said.endswith("nothing necessary is missing\n")


def test_it_installs_what_debian_has_and_looks_again(machine):
    code, said, (update, install) = machine("--install", checks=[FINE, MISSING, OPTIONAL])
    assert code == 0
    assert said == "installing iproute2 nftables\nnothing necessary is missing\n"
    assert update[:2] == ["apt-get", "update"]
    assert install[-2:] == ["iproute2", "nftables"]


def test_nothing_is_installed_if_nothing_is_missing(machine):
    assert machine("--install", checks=[FINE, ELSEWHERE])[2] == []


def test_a_failure_of_apt_is_told(machine):
    code, said, _ = machine("--install", checks=[MISSING], works=False)
    assert code == 1
    assert "apt-get update -qq` failed: no network" in said


def test_installing_needs_root(machine, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    code, said, apt = machine("--install", checks=[MISSING])
    assert code == 1
    assert "as root, run: apt-get install iproute2" in said
    assert not apt


def test_a_kernel_that_cannot_is_told_unless_only_packages_matter(machine, monkeypatch):
    monkeypatch.setattr(doctor, "kernel", lambda: iter([Check("veth", "missing", "refused", "x")]))
    assert machine()[0] == 1
    assert machine("--packages-only")[0] == 0


@pytest.mark.parametrize(
    ("system", "source"),
    [
        ({"ID": "ubuntu", "VERSION_ID": "24.04"}, "home:/p4lang/xUbuntu_24.04/ /"),
        ({"ID": "debian", "VERSION_ID": "12"}, "home:/p4lang/Debian_12/ /"),
        ({"ID": "arch"}, "home:/p4lang"),
    ],
)
def test_p4langs_packages_are_named_for_this_distribution(system, source, monkeypatch):
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: system)
    monkeypatch.setattr(shutil, "which", lambda name, **more: None)
    (check,) = (check for check in doctor.packaged() if check.name == "p4c")
    assert check.fix.endswith(source)
    assert not check.packages


def test_every_package_of_a_tool_is_known():
    tools = (*TOOLS, *doctor._OPTIONAL_TOOLS, "unshare")
    assert {*tools} <= doctor._PACKAGES.keys()
