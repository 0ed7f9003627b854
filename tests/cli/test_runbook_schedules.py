"""`postern runbooks schedules` against the real API over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.served import ANN, Served
from tests.support.shelf import shelve

SCHEDULES = ("runbooks", "schedules")
PIN = 'select {{ .pin | type "password" | squote }}'
CREATE = (*SCHEDULES, "create", "nightly", "pin.runbook.sql")


@pytest.fixture
def ann(gate: Served) -> Served:
    world = gate.world
    gate.run(world.add_connection("shop"))
    gate.run(shelve(world.stores, world.org_id, {"pin.runbook.sql": PIN}, at=world.clock()))
    gate.log_in(ANN)
    return gate


def test_schedule_runs_now_and_shows_no_parameter(ann: Served, tmp_path: Path) -> None:
    pin = tmp_path / "pin"
    pin.write_text("4711")
    ann.ok(*CREATE, "-c", "shop", "--cron", "30 2 * * *", "--zone", "Europe/Berlin", "-p", f"pin=@{pin}")
    shown = ann.ok(*SCHEDULES, "show", "nightly").stdout
    assert "Europe/Berlin" in shown
    assert "4711" not in shown
    begun = ann.json(*SCHEDULES, "run", "nightly")
    assert begun["session_id"] in ann.ok("sessions", "list").stdout
    assert not ann.json(*SCHEDULES, "update", "nightly", "--off", "-p", "pin=1")["enabled"]
    assert ann.json(*SCHEDULES, "update", "nightly", "--on")["enabled"]


def test_what_its_issue_says_goes_with_it(ann: Served) -> None:
    options = ("-c", "shop", "--cron", "30 2 * * *", "-p", "pin=1")
    refused = ann.cli(*CREATE, *options, "--issue-field", "summary=planted")
    assert refused.exit_code == 1
    assert "tracker_fields: sessions of connection 'shop' open no issue" in refused.stderr
    assert "planted" not in refused.stderr
    assert "write a field as NAME=VALUE" in ann.cli(*CREATE, *options, "--issue-field", "summary").stderr
    assert ann.json(*CREATE, *options)["tracker_field_names"] == []
    refused = ann.cli(*SCHEDULES, "update", "nightly", "--issue-field", "summary=planted")
    assert "open no issue" in refused.stderr


def test_what_is_wrong_is_said(ann: Served) -> None:
    assert ann.cli(*CREATE, "-c", "shop").exit_code == 2
    refused = ann.cli(*CREATE, "-c", "shop", "--cron", "never", "-p", "pin=4711")
    assert (refused.exit_code, "cron: must be five fields" in refused.stderr) == (1, True)
    assert "4711" not in refused.stderr


def test_times_are_printed_before_a_schedule_is_created(ann: Served) -> None:
    printed = ann.ok(*SCHEDULES, "times", "30 2 * * MON-FRI", "--zone", "Europe/Berlin", "--count", "2").stdout
    first, *times = printed.splitlines()
    assert first == "At 02:30 on Monday through Friday (Europe/Berlin)"
    assert (len(times), sorted(times)) == (2, times)
    assert "Bad minute" in ann.cli(*SCHEDULES, "times", "61 * * * *").stderr
