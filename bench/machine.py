"""The machine that figures come from, as far as it matters to a reader; nothing that names it."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from bench.bouncer import program

import postern.relay.link


def describe(postgres: str) -> dict[str, str]:
    """`postgres` is the server's version."""
    return {
        "cores": str(os.cpu_count()),
        "processor": _first(r"model name\s*:\s*(.*)", "/proc/cpuinfo"),
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB",
        "kernel": platform.release().split("-")[0],
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "hot path": "compiled by mypyc" if is_compiled() else "plain Python",
        "PostgreSQL": postgres,
        "pgbouncer": _bouncer(),
        "Chromium": _chromium(),
        "load average at the start": " ".join(f"{load:.2f}" for load in os.getloadavg()),
    }


def _bouncer() -> str:
    bouncer = program()
    if bouncer is None:
        return "none"
    said = subprocess.run([bouncer, "--version"], capture_output=True, text=True, check=True).stdout
    return said.split("\n")[0].split()[-1]


def _chromium() -> str:
    program = shutil.which("chromium")
    if program is None:
        return "none"
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]


def is_compiled() -> bool:
    return not str(postern.relay.link.__file__).endswith(".py")


def slug(machine: dict[str, str]) -> str:
    """For a file name: cores and processor."""
    words = re.sub(r"\(\w+\)|@.*|cpu|processor", " ", machine["processor"], flags=re.IGNORECASE)
    return "-".join(re.findall(r"[a-z0-9]+", f"{machine['cores']} cores {words}".lower()))


def _first(pattern: str, path: str) -> str:
    found = re.search(pattern, Path(path).read_text())
    return found[1].strip() if found else "unknown"
