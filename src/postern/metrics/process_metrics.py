"""Process metrics, under the names of Prometheus's own client libraries."""

from __future__ import annotations

import resource
import time

from postern import descriptors
from postern.metrics.meters import Meters


def sample_process(meters: Meters) -> None:
    began = time.time()  # approximate: this is called while the process starts
    meters.sample("process_cpu_seconds", _cpu)
    meters.sample("process_resident_memory_bytes", _resident)
    meters.sample("process_open_fds", lambda: float(descriptors.count_open()))
    meters.sample("process_max_fds", lambda: float(descriptors.limit()))
    meters.sample("process_start_time_seconds", lambda: began)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _resident() -> float:
    try:
        with open("/proc/self/statm", "rb") as stream:
            return float(int(stream.read().split()[1]) * resource.getpagesize())
    except OSError:  # not Linux: the peak, in KiB
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
