"""How many cores this process may use: what it is pinned to, and what its container is given."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath


def allowed_cores(
    *, proc: Path = Path("/proc/self"), cgroup_root: Path = Path("/sys/fs/cgroup")
) -> int:
    """Count the cores that compute threads may fill.

    It is the smaller of the CPU affinity (`taskset`) and the cgroup quota (`docker --cpus`),
    version 1 or 2, rounded down and at least 1. Threads beyond a quota don't run faster: the
    kernel stops all of them until the next period.

    Args:
        proc: Where the kernel describes this process.
        cgroup_root: Where cgroups are mounted.
    """
    return max(1, min([_affinity(), *map(int, _quotas(proc, cgroup_root))]))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(proc: Path, cgroup_root: Path) -> Iterator[float]:
    """Quotas in cores of this process's cgroups and of all above them; a quota above binds too."""
    try:
        lines = (proc / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:  # "0::/path" in version 2, "4:cpu,cpuacct:/path" in version 1
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        # Inside a container the path may be that of the host, where only the mount's root is ours.
        for part in (PurePosixPath(path), *PurePosixPath(path).parents):
            for mount in {controllers, "cpu" if controllers else ""}:
                quota = _quota(cgroup_root / mount / str(part).lstrip("/"))
                if quota is not None:
                    yield quota


def _quota(folder: Path) -> float | None:
    try:
        if (folder / "cpu.max").is_file():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text().strip()
            period = (folder / "cpu.cfs_period_us").read_text().strip()
        return None if quota in ("max", "-1") else float(quota) / float(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None
