"""Logging in and out by password and API key, against the real API over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from threading import Thread

import pytest
from tests.support.promises import until
from tests.support.served import ANN, PASSWORD, ROOT, Served

from postern.cli.commands.connect_commands import keep_fresh
from postern.cli.login import login_renewal, profile
from postern.cli.login.config_file import Profile, TokenKind, change
from postern.cli.terminal.forward import PortForward, StreamRequest
from postern.client.client_authentication import LoginState
from postern.domain.secret import Secret


def test_a_login_by_password_is_kept_in_a_file_of_ones_own(gate: Served) -> None:
    done = gate.ok("login", gate.url + "/api/", "--email", ROOT, "--password-stdin", stdin=PASSWORD + "\n")
    assert done.stdout == f"Logged in to {gate.url} as {ROOT}.\n"
    assert gate.file.stat().st_mode & 0o777 == 0o600
    assert gate.file.parent.stat().st_mode & 0o777 == 0o700
    who = gate.json("whoami")
    assert (who["email"], who["role"], who["profile"], who["api_url"]) == (ROOT, "admin", "default", gate.url)
    assert who["login_method"] == "local"
    shown = gate.ok("whoami").stdout
    assert ROOT in shown
    assert "login expires" in shown


def test_what_is_not_given_is_asked_for(gate: Served) -> None:
    done = gate.ok("login", gate.url, stdin=f"{ROOT}\n{PASSWORD}\n")
    assert PASSWORD not in done.output
    again = gate.ok("login", stdin=f"\n{PASSWORD}\n")  # the address and the e-mail are known
    assert ROOT in again.stdout


@pytest.mark.ci
def test_a_terminal_shows_that_a_browser_is_waited_for_until_it_is_given_up(gate: Served) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "postern", "login", gate.url, "--no-browser"],
        env={**os.environ, **gate.environment, "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as process:
        os.close(theirs)
        shown = b""
        while b"1 s  waiting for " not in shown:
            ready, _, _ = select.select([ours], [], [], 60)
            assert ready, shown
            shown += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        with suppress(OSError):  # the other end has gone
            while more := os.read(ours, 4096):
                shown += more
        assert process.wait(60) == 1
    os.close(ours)
    code = re.search(rb"enter this code:  (\S+)", shown)
    assert code is not None
    assert b"waiting for " + code[1] + b" to be confirmed" in shown
    assert shown.rpartition(b"\r\x1b[K")[2].strip() == b"Aborted!"


def test_a_wrong_password_saves_nothing(gate: Served) -> None:
    failed = gate.cli("login", gate.url, "--email", ROOT, "--password-stdin", stdin="wrong\n")
    assert failed.exit_code == 3
    assert not gate.file.exists()
    assert "wrong\n" not in failed.output


def test_a_failed_login_keeps_the_one_before(gate: Served) -> None:
    gate.log_in()
    assert gate.cli("login", "--email", ROOT, "--password-stdin", stdin="wrong\n").exit_code == 3
    assert gate.json("whoami")["email"] == ROOT


def test_logout_ends_the_login_at_the_gateway(gate: Served) -> None:
    gate.log_in()
    token = gate.config.profiles["default"].token
    assert token is not None
    assert gate.json("logout") == {"logged_out": True, "logins": [{"profile": "default", "ended_at_gateway": True}]}
    assert token.reveal() not in gate.file.read_text()
    assert gate.cli("whoami").exit_code == 3
    refused = gate.cli("whoami", POSTERN_API_URL=gate.url, POSTERN_TOKEN=token.reveal())
    assert refused.exit_code == 3
    assert "has ended" in refused.stderr
    assert gate.ok("logout").stdout == "You were not logged in.\n"


def test_logging_out_everywhere_ends_the_logins_of_other_machines(gate: Served) -> None:
    gate.log_in()
    other = gate.config.profiles["default"].token
    assert other is not None
    gate.log_in()
    assert gate.ok("logout", "--everywhere").stdout == "Logged out.\n"
    assert gate.cli("whoami", POSTERN_API_URL=gate.url, POSTERN_TOKEN=other.reveal()).exit_code == 3


def test_logout_without_a_gateway_forgets_the_token_and_says_so(gate: Served) -> None:
    profile.save(gate.environment, Profile("http://127.0.0.1:9", Secret("t0ken"), ROOT))
    done = gate.ok("logout")
    assert "still valid at the gateway" in done.stderr
    assert "t0ken" not in gate.file.read_text()


def test_two_profiles_and_logging_out_of_all(gate: Served) -> None:
    gate.log_in()
    gate.log_in("ann@example.com", "--profile", "ann")
    assert gate.config.current == "default"
    assert gate.json("whoami")["email"] == ROOT
    assert gate.json("whoami", "--profile", "ann")["email"] == "ann@example.com"
    assert gate.json("--profile", "ann", "whoami")["email"] == "ann@example.com"
    assert json.loads(gate.ok("whoami", "--json", POSTERN_PROFILE="ann").stdout)["email"] == "ann@example.com"
    assert gate.ok("logout", "--all").stdout == "Logged out of 2 profiles.\n"
    assert all(one.token is None for one in gate.config.profiles.values())


def test_another_gateway_gets_a_profile_of_its_own(gate: Served) -> None:
    elsewhere = Profile("http://127.0.0.1:9", Secret("t0ken"), ROOT)
    profile.save(gate.environment, elsewhere)
    gate.log_in()
    known = gate.config
    assert known.profiles["default"] == elsewhere
    assert known.profiles[known.current].api_url == gate.url
    assert gate.json("whoami")["email"] == ROOT


def test_an_api_key_is_checked_and_kept(gate: Served) -> None:
    gate.log_in()
    gate.ok("admin", "service-accounts", "create", "reports", "--group", "dba")
    key = gate.json("admin", "api-keys", "create", "nightly", "--service-account", "reports")["key"]
    gate.ok("login", gate.url, "--profile", "robot", "--api-key", "-", stdin=key + "\n")
    assert gate.config.profiles["robot"].kind is TokenKind.API_KEY
    assert gate.json("whoami", "--profile", "robot")["kind"] == "service_account"
    assert gate.json("logout", "--profile", "robot")["logins"] == [{"profile": "robot", "ended_at_gateway": False}]
    assert gate.cli("login", gate.url, "--profile", "robot", "--api-key", "no-such-key").exit_code == 3
    assert gate.json("admin", "api-keys", "show", "nightly")["status"] == "active"


@pytest.mark.parametrize("url", ["gateway.example.com", "ftp://example.com", "https://me:pw@example.com", "https://"])
def test_what_is_no_address_is_refused(gate: Served, url: str) -> None:
    failed = gate.cli("login", url, "--email", ROOT, "--password-stdin", stdin=PASSWORD)
    assert failed.exit_code == 1
    assert not gate.file.exists()


def test_something_that_is_not_postern_is_told_from_it(gate: Served) -> None:
    failed = gate.cli("login", f"{gate.url}/elsewhere", "--email", ROOT, "--password-stdin", stdin=PASSWORD)
    assert failed.exit_code in (5, 6)


# -- refreshing --------------------------------------------------------------------------------------------------------


def age(gate: Served, **forward: float) -> Secret:
    """As if the login of the profile were older; answers its token."""
    gate.world.clock.forward(**forward)
    with change(gate.file) as known:
        one = known.profiles["default"]
        known.profiles["default"] = Profile(one.api_url, one.token, one.email, one.authority, one.kind, time.time() - 1)
    assert one.token is not None
    return one.token


def test_a_token_in_its_last_third_is_refreshed_and_kept(gate: Served) -> None:
    gate.log_in()
    kept = gate.config.profiles["default"]
    assert kept.refresh_at == pytest.approx(time.time() + 8 * 3600, abs=60)  # two thirds of 12 hours
    gate.ok("whoami")
    assert gate.config.profiles["default"] == kept  # nothing to do yet
    old = age(gate, hours=9)
    gate.ok("whoami")
    now = gate.config.profiles["default"]
    assert now.token not in (old, None)
    assert now.refresh_at is not None
    assert now.refresh_at > time.time()


def test_of_commands_at_once_one_refreshes_and_all_go_on(gate: Served) -> None:
    gate.log_in()
    old = age(gate, hours=9)
    used = gate.config.profiles["default"]
    found: list[Profile] = []
    threads = [Thread(target=lambda: found.append(login_renewal.fresh(gate.environment, used))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    tokens = {one.token for one in found}
    assert len(found) == 8
    assert len(tokens) == 1
    assert tokens != {old}
    assert gate.config.profiles["default"].token in tokens


def test_a_refresh_does_not_bring_back_what_was_logged_out(gate: Served) -> None:
    gate.log_in()
    age(gate, hours=9)
    used = gate.config.profiles["default"]
    profile.forget(gate.environment)
    assert login_renewal.fresh(gate.environment, used) == used
    assert gate.config.profiles["default"].token is None


def test_without_an_answer_the_old_token_goes_on(gate: Served) -> None:
    used = Profile("http://127.0.0.1:9", Secret("t0ken"), ROOT, refresh_at=time.time() - 1)
    profile.save(gate.environment, used)
    found = login_renewal.fresh(gate.environment, used)
    assert found.token == used.token
    assert found.refresh_at is not None
    assert found.refresh_at > time.time()


def test_a_token_of_the_environment_is_not_refreshed(gate: Served) -> None:
    gate.log_in()
    token = age(gate, hours=9)
    before = gate.file.read_text()
    gate.ok("whoami", POSTERN_TOKEN=token.reveal())
    assert gate.file.read_text() == before


def forward_for(gate: Served, hours: float, now: Profile | None = None) -> tuple[Secret, Secret]:
    """The token of a forward before and after it had time to look; `now` is what the profile is meanwhile."""
    before = age(gate, hours=hours)
    used = gate.config.profiles["default"]
    forward = PortForward(StreamRequest("wss://localhost:1", before, "shop", ""), pytest.fail)

    looked = 0

    def look(environ: Mapping[str, str], known: Profile) -> Profile:
        nonlocal looked
        found = fresh(environ, known)
        looked += 1
        return found

    async def run() -> None:
        if now is not None:
            profile.save(gate.environment, now)
        renewing = asyncio.create_task(keep_fresh(forward, gate.environment, used, every=0.01))
        await until(lambda: looked >= 3)  # each look after the first has made something of the one before
        renewing.cancel()

    fresh = login_renewal.fresh
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login_renewal, "fresh", look)
        asyncio.run(run())
    return before, forward.request.token


def test_a_forward_outlives_a_token(gate: Served) -> None:
    gate.log_in()
    before, after = forward_for(gate, 9)
    assert after != before
    assert after == gate.config.profiles["default"].token


def test_a_forward_never_goes_on_as_somebody_else(gate: Served) -> None:
    gate.log_in()
    before, after = forward_for(gate, 9, Profile(gate.url, Secret("of another"), ANN))
    assert after == before


def test_a_token_that_cannot_get_older_is_not_refreshed() -> None:
    end = datetime.now(UTC) + timedelta(hours=1)
    assert login_renewal.refresh_at(LoginState("a", end, end, timedelta(hours=1), False)) is None
    assert login_renewal.refresh_at(LoginState("a", None, None, None, False)) is None


def test_a_password_is_changed_and_the_login_goes_on(gate: Served) -> None:
    gate.log_in("ann@example.com")
    new = "an even longer password"
    gate.ok("password", "--stdin", stdin=f"{PASSWORD}\n{new}\n")
    assert gate.json("whoami")["email"] == "ann@example.com"
    done = gate.ok("login", "--email", "ann@example.com", "--password-stdin", stdin=new + "\n")
    assert "Logged in" in done.stdout


def test_a_token_of_the_environment_is_not_kept_when_the_password_changes(gate: Served) -> None:
    gate.log_in()
    gate.log_in(ANN, "--profile", "ann")
    token = gate.config.profiles["ann"].token
    assert token is not None
    before = gate.file.read_text()
    stdin = f"{PASSWORD}\nan even longer password\n"
    done = gate.ok("password", "--stdin", stdin=stdin, POSTERN_TOKEN=token.reveal())
    assert "log in again" in done.stderr
    assert gate.file.read_text() == before
