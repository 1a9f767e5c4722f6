"""A process that counts the whole machine's cores is slowed by its container, or crashes (HC06)."""

import os
from pathlib import Path

import pytest

from foretell.runtime.cpu import allowed_cores


@pytest.fixture(autouse=True)
def sixteen_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)), raising=False)


def cores(tmp_path: Path, cgroup: str | None, files: dict[str, str]) -> int:
    """Count with a made-up kernel: what /proc/self/cgroup says, and the files below the mount."""
    proc, root = tmp_path / "proc", tmp_path / "cgroup"
    proc.mkdir()
    if cgroup is not None:
        (proc / "cgroup").write_text(cgroup)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return allowed_cores(proc=proc, cgroup_root=root)


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ("max 100000", 16),
        ("400000 100000", 4),
        ("350000 100000", 3),  # the fourth thread would only use the others' time up
        ("50000 100000", 1),
        ("6400000 100000", 16),
    ],
)
def test_version_2_quota(tmp_path: Path, quota: str, expected: int) -> None:
    assert cores(tmp_path, "0::/\n", {"cpu.max": f"{quota}\n"}) == expected


def test_a_quota_above_binds_too(tmp_path: Path) -> None:
    files = {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "200000 100000\n", "cpu.max": "max 1\n"}
    assert cores(tmp_path, "0::/a/b\n", files) == 2


def test_inside_a_container_the_path_is_the_hosts(tmp_path: Path) -> None:
    assert cores(tmp_path, "0::/docker/0123\n", {"cpu.max": "200000 100000\n"}) == 2


@pytest.mark.parametrize(("quota", "expected"), [("-1", 16), ("150000", 1), ("300000", 3)])
def test_version_1_quota(tmp_path: Path, quota: str, expected: int) -> None:
    files = {
        "cpu,cpuacct/box/cpu.cfs_quota_us": f"{quota}\n",
        "cpu,cpuacct/box/cpu.cfs_period_us": "100000\n",
        "cpuset/box/cpu.max": "100000 100000\n",  # another controller's file says nothing here
    }
    assert cores(tmp_path, "5:cpuset:/box\n4:cpu,cpuacct:/box\n", files) == expected


def test_version_1_names_without_folders_of_that_name(tmp_path: Path) -> None:
    """Some systems mount "cpu,cpuacct" as "cpu" alone."""
    files = {"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}
    assert cores(tmp_path, "4:cpu,cpuacct:/\n", files) == 3


@pytest.mark.parametrize("text", ["", "nonsense", "1 2 3", "a b", "100000 0"])
def test_a_quota_that_makes_no_sense_is_none(tmp_path: Path, text: str) -> None:
    assert cores(tmp_path, "0::/\n", {"cpu.max": text}) == 16


@pytest.mark.parametrize("cgroup", [None, "", "nonsense\n"])
def test_a_machine_without_cgroups_has_no_quota(tmp_path: Path, cgroup: str | None) -> None:
    assert cores(tmp_path, cgroup, {}) == 16


def test_affinity_counts_where_it_is_smaller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3}, raising=False)
    assert cores(tmp_path, "0::/\n", {"cpu.max": "400000 100000\n"}) == 1


def test_a_system_without_affinity_counts_its_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert cores(tmp_path, None, {}) == 8
