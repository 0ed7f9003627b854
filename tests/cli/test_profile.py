from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from postern.cli.login import config_file, profile
from postern.cli.login.profile import Profile
from postern.domain.secret import Secret
from postern.errors import Invalid, Misconfigured, NotFound, Unauthenticated, Unavailable

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
    assert profile.find(environ) == replace(KEPT, token=None)  # whom to ask for next time
    assert not profile.forget(environ)
    with pytest.raises(Unauthenticated, match="not logged in"):
        profile.require(environ)


@pytest.mark.parametrize("text", ["{", "[]", '{"api_url": "x"}', ""])
def test_a_damaged_file_says_what_to_do(environ: dict[str, str], text: str) -> None:
    profile.save(environ, KEPT).write_text(text)
    with pytest.raises(Misconfigured, match="remove it and log in again"):
        profile.find(environ)


OTHER = Profile("http://two:7480", Secret("0ther"), "you@example.com")


def test_the_shape_of_one_profile_is_read_and_becomes_the_new_one(environ: dict[str, str]) -> None:
    file = profile.path(environ)
    file.parent.mkdir()
    old = {"api_url": "http://one:7480", "token": "t0ken", "email": "me@example.com", "authority": "PEM"}
    file.write_text(json.dumps(old))
    file.chmod(0o600)
    assert profile.find(environ) == KEPT
    profile.save(environ, OTHER, "other")
    kept = json.loads(file.read_text())
    assert (kept["current"], sorted(kept["profiles"])) == ("default", ["default", "other"])
    assert profile.find(environ) == KEPT


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o602, 0o644])
def test_a_file_that_others_can_read_is_refused(environ: dict[str, str], mode: int) -> None:
    file = profile.save(environ, KEPT)
    file.chmod(mode)
    with pytest.raises(Misconfigured, match=f"chmod 600 {file}"):
        profile.find(environ)
    with pytest.raises(Misconfigured):
        profile.save(environ, OTHER)
    file.chmod(0o600)
    assert profile.find(environ) == KEPT


def test_one_of_several_profiles_is_chosen(environ: dict[str, str]) -> None:
    profile.save(environ, KEPT, "one")
    profile.save(environ, OTHER, "two")
    assert profile.find(environ) == KEPT  # the first one is the current one
    assert profile.find({**environ, "POSTERN_PROFILE": "two"}) == OTHER
    profile.use(environ, "two")
    assert profile.find(environ) == OTHER
    profile.remove(environ, "two")
    assert profile.find(environ) == KEPT
    with pytest.raises(Unauthenticated, match="with the profile two"):
        profile.require({**environ, "POSTERN_PROFILE": "two"})
    for change in (profile.use, profile.remove):
        with pytest.raises(NotFound):
            change(environ, "two")


@pytest.mark.parametrize("name", ["", "../x", "a b", "-x", "x" * 65, "a/b", "a\nb"])
def test_odd_names_are_refused(name: str) -> None:
    with pytest.raises(Invalid):
        profile.check_name(name)


def test_a_token_of_one_profile_is_never_sent_to_the_gateway_of_another(environ: dict[str, str]) -> None:
    profile.save(environ, KEPT, "one")
    profile.save(environ, OTHER, "two")
    elsewhere = {**environ, "POSTERN_PROFILE": "two", "POSTERN_API_URL": "http://one:7480"}
    assert profile.find(elsewhere) == Profile("http://one:7480")


def test_a_change_that_fails_leaves_the_file_as_it_was(environ: dict[str, str]) -> None:
    file = profile.save(environ, KEPT)
    before = file.read_bytes()

    def fail() -> None:
        with config_file.change(file) as known:
            known.profiles.clear()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert file.read_bytes() == before
    assert sorted(one.name for one in file.parent.iterdir()) == [".config.lock", "config.json"]


def test_a_draft_that_somebody_put_there_is_not_written_through(environ: dict[str, str], tmp_path: Path) -> None:
    file = profile.save(environ, KEPT)
    target = tmp_path / "elsewhere"
    target.write_text("mine")
    (file.parent / f".config.{os.getpid()}").symlink_to(target)
    profile.save(environ, OTHER)
    assert target.read_text() == "mine"
    assert profile.find(environ) == OTHER


def test_changes_at_the_same_time_are_all_kept(environ: dict[str, str]) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: profile.save(environ, KEPT, f"p{number}"), range(40)))
    assert len(profile.config(environ).profiles) == 40


def test_a_lock_that_is_kept_is_not_waited_for_without_end(environ: dict[str, str]) -> None:
    file = profile.save(environ, KEPT)
    with config_file.change(file), pytest.raises(Unavailable, match="try again"), config_file.change(file, wait=0.05):
        pytest.fail("two at once")


def test_a_folder_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "postern").write_text("a file where the folder should be")
    with pytest.raises(Misconfigured, match="to work without it"):
        profile.save({"XDG_CONFIG_HOME": str(tmp_path)}, KEPT)
