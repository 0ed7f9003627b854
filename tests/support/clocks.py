"""Processes whose clock is wrong, by Debian's faketime. Only the time of day is: what measures time goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def clock(offset: str) -> tuple[str, ...]:
    """Words to start a program by; `offset` as `+1h`, `-1d`. Missing: an error under CI=true, else a visible skip."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not found:
        reason = "no clock can be set wrong: install Debian's faketime"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    return ("env", f"LD_PRELOAD={found[0]}", f"FAKETIME={offset}", "FAKETIME_DONT_FAKE_MONOTONIC=1")
