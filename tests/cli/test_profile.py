from __future__ import annotations

from pathlib import Path

import pytest

from postern.cli import profile
from postern.cli.profile import Profile
from postern.domain.secret import Secret
from postern.errors import Misconfigured, Unauthenticated

KEPT = Profile("http://one:7480", Secret("t0ken"), "me@example.com", "PEM")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_what_is_saved_is_found_and_closed_to_others(environ: dict[str, str]) -> None:
    file = profile.save(environ, KEPT)
    assert profile.find(environ) == KEPT
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert "t0ken" not in repr(KEPT)


def test_the_environment_wins(environ: dict[str, str]) -> None:
    profile.save(environ, KEPT)
    found = profile.require({**environ, "POSTERN_TOKEN": "other"})
    assert (found.api_url, found.token) == (KEPT.api_url, Secret("other"))


def test_a_token_is_never_sent_to_another_gateway(environ: dict[str, str]) -> None:
    profile.save(environ, KEPT)
    elsewhere = {**environ, "POSTERN_API_URL": "http://two:7480"}
    assert profile.find(elsewhere) == Profile("http://two:7480")
    with pytest.raises(Unauthenticated):
        profile.require(elsewhere)
    assert profile.require({**environ, "POSTERN_API_URL": "http://one:7480/"}) == KEPT


def test_nobody_is_logged_in_without_a_file(environ: dict[str, str]) -> None:
    assert profile.find(environ) is None
    assert not profile.forget(environ)
    profile.save(environ, KEPT)
    assert profile.forget(environ)
    with pytest.raises(Unauthenticated, match="not logged in"):
        profile.require(environ)


@pytest.mark.parametrize("text", ["{", "[]", '{"api_url": "x"}', ""])
def test_a_damaged_file_says_what_to_do(environ: dict[str, str], text: str) -> None:
    profile.save(environ, KEPT).write_text(text)
    with pytest.raises(Misconfigured, match="remove it and log in again"):
        profile.find(environ)
