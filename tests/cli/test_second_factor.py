"""Second factors, with codes as an authenticator app makes them."""

from __future__ import annotations

import pyotp
import pytest
from tests.support.served import ANN, PASSWORD, Served

from postern.services.identity.logins import totp

pytestmark = pytest.mark.ci

KEY = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"


@pytest.fixture
def app_key(monkeypatch: pytest.MonkeyPatch) -> str:
    """The gateway makes this key, so that a code can be typed before it is shown."""
    monkeypatch.setattr(totp, "new_key", lambda: KEY)
    return KEY


def code(gate: Served) -> str:
    return pyotp.TOTP(KEY).at(gate.world.clock.now)


def add(gate: Served) -> list[str]:
    """Ann's authenticator app; answers her recovery codes."""
    gate.log_in(ANN)
    done = gate.json("second-factor", "add", stdin=f"{PASSWORD}\n{code(gate)}\n")
    gate.world.clock.forward(seconds=60)  # a code is good once
    codes: list[str] = done["recovery_codes"]
    return codes


def test_an_authenticator_app_is_added_by_qr_code(gate: Served, app_key: str) -> None:
    gate.log_in(ANN)
    done = gate.ok("second-factor", "add", "--name", "my phone", stdin=f"{PASSWORD}\n000000\n{code(gate)}\n")
    assert "otpauth://totp/Postern" in done.stderr
    assert "\u2580" in done.stderr  # half blocks of the QR code
    assert KEY in done.stderr
    assert "does not match the code" in done.stderr  # the first code was wrong
    assert len(done.stdout.splitlines()) == 11  # "Added", and ten recovery codes
    assert PASSWORD not in done.output
    listed = gate.json("second-factor")
    assert [(one["kind"], one["name"]) for one in listed["data"]] == [("totp", "my phone")]
    assert listed["recovery_codes_left"] == 10


def test_a_login_asks_for_the_code(gate: Served, app_key: str) -> None:
    add(gate)
    done = gate.ok("login", "--email", ANN, stdin=f"{PASSWORD}\n{code(gate)}\n")
    assert "Logged in" in done.stdout
    assert gate.json("whoami")["email"] == ANN


def test_a_wrong_code_logs_nobody_in(gate: Served, app_key: str) -> None:
    add(gate)
    gate.ok("logout")
    assert gate.cli("login", "--email", ANN, stdin=f"{PASSWORD}\n000000\n").exit_code == 3
    assert gate.cli("whoami").exit_code == 3


def test_a_recovery_code_logs_in_once(gate: Served, app_key: str) -> None:
    first = add(gate)[0]
    gate.ok("login", "--email", ANN, stdin=f"{PASSWORD}\n{first}\n")
    assert gate.cli("login", "--email", ANN, stdin=f"{PASSWORD}\n{first}\n").exit_code == 3


def test_recovery_codes_are_renewed_and_the_factor_removed(gate: Served, app_key: str) -> None:
    old = add(gate)
    new = gate.json("second-factor", "recovery-codes", "--by-code", stdin=f"{old[0]}\n")["recovery_codes"]
    assert len(new) == 10
    assert not set(new) & set(old)
    factor = gate.json("second-factor", "list")["data"][0]["id"]
    assert gate.cli("second-factor", "remove", factor, stdin="wrong\n").exit_code == 4
    gate.ok("second-factor", "remove", factor, "--password-stdin", stdin=PASSWORD + "\n")
    assert gate.json("second-factor")["data"] == []


def test_an_administrator_resets_the_factors_of_another(gate: Served, app_key: str) -> None:
    add(gate)
    gate.log_in()
    gate.ok("admin", "users", "reset-second-factors", ANN, "--yes")
    gate.log_in(ANN)
    assert gate.json("second-factor")["data"] == []


def test_who_must_add_a_factor_is_told_and_can(gate: Served, app_key: str) -> None:
    gate.log_in()
    gate.ok("admin", "auth", "set-local", "--require-second-factor", "--yes", "--force")
    done = gate.ok("login", "--email", ANN, "--password-stdin", stdin=PASSWORD + "\n")
    assert "postern second-factor add" in done.stderr
    assert gate.cli("connections").exit_code != 0
    gate.ok("second-factor", "add", stdin=f"{code(gate)}\n")
    gate.ok("connections")
