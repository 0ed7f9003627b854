"""The systemd units are valid and as closed as they can be, and what they name exists."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from postern.cli.lazy import NOT_LOGGED_IN
from postern.gateway.processes.supervisor import PATIENCE
from postern.settings import AgentSettings

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
SYSUSERS = re.findall(r"^u .*$", (DEPLOY / "systemd" / "postern.sysusers").read_text(), re.MULTILINE)
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
# Exposure in tenths, as `systemd-analyze security` counts it: 0 is the most closed, 96 a unit without any limit.
MOST_EXPOSED = 12

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="no systemd-analyze: install Debian's systemd"
)
each_unit = pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)


def service(unit: Path) -> dict[str, list[str]]:
    """Return the section Service: each setting can occur more than once."""
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", unit.read_text().split("[Service]")[1], re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


@needs_systemd
@each_unit
def test_unit_is_valid(unit: Path, tmp_path: Path) -> None:
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/opt/postern/bin/postern", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy], capture_output=True, text=True, check=False)
    # Units of the machine itself that it depends on can have problems of their own.
    assert [line for line in done.stderr.splitlines() if unit.name in line] == []


@needs_systemd
@each_unit
def test_unit_is_closed(unit: Path) -> None:
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSED}", "--no-pager", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@each_unit
def test_unit_has_what_keeps_the_service_running(unit: Path) -> None:
    settings = service(unit)
    # The kernel ends one worker for its memory, not all of them.
    assert settings["OOMPolicy"] == ["continue"]
    assert int(settings["LimitNOFILE"][0]) >= 65_536
    assert settings["User"] == [line.split()[1] for line in SYSUSERS if line.split()[1] == settings["User"][0]]
    assert not [value for value in settings["Environment"] if re.search(r"(KEY|TOKEN|SECRET)=", value)]


def test_gateway_has_longer_to_stop_than_its_processes_take() -> None:
    settings = service(DEPLOY / "systemd" / "postern-gateway.service")
    assert int(settings["TimeoutStopSec"][0]) > 2 * PATIENCE
    assert settings["Type"] == ["notify"]
    assert settings["StateDirectory"] == ["postern"]


def test_agent_has_longer_to_stop_than_its_sessions_have() -> None:
    settings = service(DEPLOY / "systemd" / "postern-agent.service")
    assert int(settings["TimeoutStopSec"][0]) > AgentSettings().agent_grace
    assert settings["RestartPreventExitStatus"] == [str(NOT_LOGGED_IN)]
