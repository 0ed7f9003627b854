"""What `scripts/install-services` builds or gets for tests, in folders of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def installed_tool(name: str) -> Path:
    """Return its folder or file. Missing: an error under CI=true, a visible skip elsewhere."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = cache / "postern-tools" / name
    if not place.exists():
        say_missing(name)
    return place


def say_missing(name: str) -> None:
    """Skip the test, or fail under CI=true."""
    reason = f"{name} is not installed: run scripts/install-services {name}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
