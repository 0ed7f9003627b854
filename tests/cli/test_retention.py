"""Retention, holds and purges on the command line."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from tests.support.recorded import Records
from tests.support.retention import Keeping
from tests.support.served import Served

pytestmark = pytest.mark.ci


@pytest.fixture
def keeping(gate: Served, tmp_path: Path) -> Keeping:
    gate.log_in()
    gate.world.clock.tick = timedelta(milliseconds=1)
    connection = gate.run(gate.world.add_connection())
    records = Records(gate.world, tmp_path, gate.root, connection)
    made = gate.run(Keeping.make(records, tmp_path))
    gate.log_in()
    return made


def test_a_retention_is_previewed_set_and_takes_effect_after_a_day(gate: Served, keeping: Keeping) -> None:
    gate.run(keeping.sessions(2))
    gate.run(keeping.days(3))
    gate.log_in()
    wanted = ("admin", "retention", "set", "--recordings", "1d", "--sessions", "2y")
    assert "purge 2 recordings" in gate.ok(*wanted, "--dry-run").stdout
    assert gate.json("admin", "retention", "show")[0]["is_own"] is False
    assert gate.cli(*wanted, stdin="n\n").exit_code == 1
    assert gate.json("admin", "retention", "show")[0]["is_own"] is False
    told = gate.ok(*wanted, stdin="y\n")
    assert "purge 2 recordings" in told.stderr
    assert "It takes effect at" in told.stdout
    assert "forever / forever applies" in told.stdout
    own = gate.ok("admin", "retention", "set", "--connection", "shop", "--recordings", "forever",
                  "--sessions", "forever", "--yes")  # fmt: skip
    assert "for shop: forever / forever" in own.stdout
    shown = gate.ok("admin", "retention", "show").stdout.splitlines()
    assert [line.split("\t")[:3] for line in shown] == [
        ["(organisation)", "1 days", "730 days"],
        ["shop", "forever", "forever"],
    ]
    back = gate.json("admin", "retention", "inherit", "--connection", "shop")
    assert back["is_own"] is False
    assert back["effective_at"] is None  # what it inherits is in force only in a day


def test_what_is_no_number_of_days_is_a_wrong_usage(gate: Served, keeping: Keeping) -> None:
    for days in ("", "0x10", "-1", "ever", "1w", "9999999"):
        result = gate.cli("admin", "retention", "set", "--recordings", days, "--sessions", "forever", "--yes")
        assert result.exit_code == 2, days
    zero = gate.cli("admin", "retention", "set", "--recordings", "0", "--sessions", "1", "--yes")
    assert "recording_days: must be 1" in zero.output


def test_from_a_hold_to_a_purge(gate: Served, keeping: Keeping) -> None:
    [key, other] = map(str, gate.run(keeping.sessions(2)))
    gate.ok("sessions", "legal-hold", "add", key, other, "--name", "case A", "--reason", "court order")
    assert {one["session_id"] for one in gate.json("sessions", "legal-hold", "list")["data"]} == {key, other}
    assert "held        yes" in gate.cli("sessions", "show", key).output
    assert len(gate.json("sessions", "list", "--held")["data"]) == 2
    purge = ("sessions", "purge", key, "--reason", "asked to", "--what", "session")
    assert "'case A'" in gate.cli(*purge, "--yes").output
    assert "no legal hold" in gate.cli("sessions", "legal-hold", "remove", key, "--name", "case B", "--yes").output
    gate.ok("sessions", "legal-hold", "remove", key, "--name", "case A", "--yes")
    gate.ok("sessions", "hold", key, "--name", "case C", "--reason", "by the command of earlier versions")
    gate.ok("sessions", "release", key, "--name", "case C", "--yes")
    assert [one["session_id"] for one in gate.json("sessions", "holds")["data"]] == [other]
    assert gate.json(*purge, "--dry-run")["id"] == key
    assert gate.cli(*purge, stdin="n\n").exit_code == 1
    assert "entry" in gate.ok(*purge, stdin="y\n").stdout
    assert [one["session_id"] for one in gate.json("sessions", "purges")["data"]] == [key]
    gate.run(keeping.round())
    assert "no session" in gate.cli("sessions", "show", key).output
    assert gate.json("sessions", "purges")["data"] == []


def test_a_session_without_its_recording_is_shown(gate: Served, keeping: Keeping) -> None:
    [key] = map(str, gate.run(keeping.sessions(1)))
    gate.ok("sessions", "purge", key, "--reason", "a password was typed", "--yes")
    gate.run(keeping.round())
    shown = gate.ok("sessions", "show", key)
    assert "purged at" in shown.stdout
    assert gate.json("sessions", "show", key)["recording_purged_at"] is not None
