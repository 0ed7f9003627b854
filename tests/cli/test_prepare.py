"""How a gateway that starts logs the command line of its own user in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from postern.cli.commands.processes.prepare_commands import OWN, _log_in
from postern.cli.login import profile
from postern.cli.login.profile import Profile
from postern.domain.secret import Secret
from postern.wiring.processes.prepare import PreparedLogin

OURS, BEFORE, THEIRS = "http://localhost:7480", "http://localhost:7000", "https://gateway.example.com"
MADE = PreparedLogin(OURS, "admin@localhost", Secret("fresh"), "", frozenset({OURS, BEFORE}))


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("POSTERN_PROFILE", "POSTERN_API_URL", "POSTERN_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_nobody_was_logged_in(environ: dict[str, str]) -> None:
    _log_in(MADE)
    found = profile.require(environ)
    assert (found.api_url, found.email, found.token) == (OURS, MADE.email, MADE.token)


def test_the_same_gateway_at_another_address(environ: dict[str, str]) -> None:
    profile.save(environ, Profile(BEFORE, Secret("old"), "me"))
    _log_in(MADE)
    assert profile.require(environ).api_url == OURS
    assert len(profile.config(environ).profiles) == 1


def test_a_login_to_another_gateway_stays(environ: dict[str, str]) -> None:
    theirs = Profile(THEIRS, Secret("theirs"), "me")
    profile.save(environ, theirs)
    _log_in(MADE)
    assert profile.find(environ) == theirs
    assert profile.require({**environ, "POSTERN_PROFILE": OWN}).token == MADE.token
    _log_in(replace(MADE, token=Secret("again")))
    assert profile.require({**environ, "POSTERN_PROFILE": OWN}).token == Secret("again")
    assert len(profile.config(environ).profiles) == 2


def test_without_a_token_nothing_is_written(environ: dict[str, str]) -> None:
    _log_in(replace(MADE, token=None))
    assert not profile.path(environ).exists()


def test_a_file_that_cannot_be_read_stops_no_gateway(environ: dict[str, str]) -> None:
    file = profile.save(environ, Profile(THEIRS))
    file.write_text("{")
    _log_in(MADE)
    assert file.read_text() == "{"
