"""Packages of this tree, built with the libraries of this environment, since a new one takes a minute to fill."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "constraints.txt")


def copy_tree(target: Path) -> Path:
    """Copy what packages are built from, without the sources of the web application and what was built from them."""
    target.mkdir()
    for name in ("src", "scripts"):
        ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info", "dist")
        shutil.copytree(ROOT / name, target / name, ignore=ignored)
    for name in _FILES:
        shutil.copy(ROOT / name, target)
    return target


def build(source: Path, target: Path, kind: str, **environment: str) -> Path:
    """Build `wheel` or `sdist` without compiling."""
    code = f"import build_backend, sys; print(build_backend.build_{kind}(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, target],
        cwd=source,
        env={**os.environ, "PYTHONPATH": str(source / "scripts"), "POSTERN_COMPILE": "0", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return target / done.stdout.splitlines()[-1]
