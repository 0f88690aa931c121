"""How many cores a container has."""

import os

import pytest

from nsh.serving.cores import cpu_quota


@pytest.fixture(autouse=True)
def _sixteen_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(16)))


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


def v2(root, quotas, *, group="/pod/app"):
    """A system with control groups of version 2; `quotas` maps a group below the mount to its cpu.max."""
    write(root / "proc/self/cgroup", f"0::{group}")
    for name, quota in quotas.items():
        write(root / "sys/fs/cgroup" / name / "cpu.max", quota)


def v1(root, quotas, *, controllers="cpu,cpuacct", group="/docker/abc"):
    write(root / "proc/self/cgroup", f"4:memory:{group}\n3:{controllers}:{group}\n1:name=systemd:{group}")
    for name, quota in quotas.items():
        folder = root / "sys/fs/cgroup" / controllers / name
        write(folder / "cpu.cfs_quota_us", str(quota))
        write(folder / "cpu.cfs_period_us", "100000")


@pytest.mark.parametrize(
    ("quotas", "cores"),
    [
        ({"": "200000 100000"}, 2),  # a container: its group is mounted as the root
        ({"": "150000 100000"}, 2),  # one and a half: rounded up
        ({"": "5000 100000"}, 1),
        ({"": "max 100000"}, 16),
        ({"": "6400000 100000"}, 16),  # more than there are
        ({"pod/app": "300000 100000"}, 3),
        ({"pod": "400000 100000", "pod/app": "max 100000"}, 4),  # a group above limits too
        ({"pod": "400000 100000", "pod/app": "600000 100000"}, 4),
        ({"other": "100000 100000"}, 16),
        ({}, 16),
        ({"": ""}, 16),
    ],
)
def test_version_2(tmp_path, quotas, cores):
    v2(tmp_path, quotas)
    assert cpu_quota(system=tmp_path) == cores


@pytest.mark.parametrize("controllers", ["cpu,cpuacct", "cpu"])
@pytest.mark.parametrize(
    ("quotas", "cores"),
    [({"": 200000}, 2), ({"": -1}, 16), ({"docker/abc": 250000}, 3), ({"docker": 100000, "docker/abc": -1}, 1)],
)
def test_version_1(tmp_path, quotas, cores, controllers):
    v1(tmp_path, quotas, controllers=controllers)
    assert cpu_quota(system=tmp_path) == cores


def test_affinity_counts_without_a_quota_and_outside_linux(tmp_path, monkeypatch):
    assert cpu_quota(system=tmp_path) == 16
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {5})
    assert cpu_quota(system=tmp_path) == 1
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cpu_quota(system=tmp_path) == 1


def test_this_machine_has_at_least_one_core():
    assert 1 <= cpu_quota() <= 16
