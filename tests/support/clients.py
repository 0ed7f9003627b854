"""Clients that people use, run as they are: psql, pgbench, pg_dump, pg_restore."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


def need(program: str, packages: str = "postgresql-client and postgresql-contrib") -> str:
    """The program's path. Missing: an error under CI=true, a visible skip elsewhere."""
    found = shutil.which(program)
    if found is None:
        reason = f"{program} is not installed: install Debian's {packages}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def run(
    program: str, *arguments: str, stdin: str | bytes | None = None, timeout: float = 120.0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs it to its end, whatever its exit code; output as text."""
    return subprocess.run(
        [need(program), *arguments],
        input=stdin.decode() if isinstance(stdin, bytes) else stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=clean_environment(**environment),
        check=False,
    )


def clean_environment(**more: str) -> dict[str, str]:
    """Ours without what would change how PostgreSQL's clients behave."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {**kept, "LC_ALL": "C.UTF-8", "PSQLRC": "/dev/null", **more}


def psql(
    url: str, *arguments: str, stdin: str | None = None, timeout: float = 120.0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """`psql -X -A -t` on `url`."""
    return run("psql", "-X", "-A", "-t", *arguments, url, stdin=stdin, timeout=timeout, **environment)
