from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from postern.errors import Misconfigured
from postern.settings import Settings
from postern.wiring import paths
from postern.wiring.processes import machine_processes

LINK = "http://localhost:7480/setup#token=t0ken"
TOLD = {
    "api_url": "u",
    "admin_email": "admin@localhost",
    "admin_password": "s3cret",
    "setup_url": LINK,
    "psql": 'psql "postgresql://x"',
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = Settings(home=tmp_path)
    paths.first_run_file(made).write_text(json.dumps(TOLD))
    return made


def installed(*names: str) -> Callable[[str], str | None]:
    return lambda name: f"/usr/bin/{name}" if name in names else None


def test_the_first_banner_is_ready_to_paste(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", installed("psql"))
    monkeypatch.setattr(sys, "argv", ["/opt/postern/.venv/bin/postern", "up"])
    banner = machine_processes._banner(settings, is_first=True)
    postern = "    /opt/postern/.venv/bin/postern"
    for text in (
        *("http://localhost:7480", "s3cret", TOLD["psql"]),
        *(f"{postern} setup '{LINK}'\n", f"{postern} sessions\n"),
    ):
        assert text in banner
    assert "apt-get" not in banner


@pytest.mark.parametrize(
    ("demo", "terminal", "shown"), [(True, False, True), (False, True, True), (False, False, False)]
)
def test_output_that_is_a_log_shows_no_secret(
    demo: bool, terminal: bool, shown: bool, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    assert machine_processes._can_show_secrets(replace(settings, demo=demo)) is shown


def test_the_next_banner_shows_no_secret(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", installed())
    banner = machine_processes._banner(settings, is_first=False)
    assert "s3cret" not in banner
    assert "t0ken" not in banner
    assert "postgresql://" not in banner
    assert str(paths.first_run_file(settings)) in banner
    assert "apt-get install postgresql-client" in banner


def test_where_passwords_are_not_taken_only_the_link_is_shown(settings: Settings) -> None:
    banner = machine_processes._banner(replace(settings, auth_method="oidc"), is_first=True)
    assert "s3cret" not in banner
    assert LINK in banner


def test_a_file_that_was_removed_is_not_said_to_have_the_password(settings: Settings) -> None:
    emptied = TOLD | {"admin_password": "", "setup_url": "", "psql": ""}  # what the next start writes
    paths.first_run_file(settings).write_text(json.dumps(emptied))
    for is_first in (True, False):
        banner = machine_processes._banner(settings, is_first)
        assert "password is in" not in banner
        assert "setup-link` creates a link" in banner


def test_a_gateway_without_workers_is_refused(settings: Settings) -> None:
    with pytest.raises(Misconfigured, match="set 1 or more"):
        machine_processes.run(replace(settings, workers=0), {})


def test_children_take_no_module_from_the_folder_they_are_started_in() -> None:
    assert machine_processes._child("w1", "worker", "--name", "w1").arguments == (
        "-P",
        "-m",
        "postern",
        "worker",
        "--name",
        "w1",
    )
