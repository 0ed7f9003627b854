"""`postern reports` against the real API over HTTP."""

from __future__ import annotations

import pytest
from tests.support.ended import had
from tests.support.served import ANN, Served


@pytest.fixture
def root(gate: Served) -> Served:
    gate.log_in()
    return gate


async def fill(gate: Served) -> None:
    account = await gate.world.stores.principals.by_email(gate.world.org_id, ANN)
    assert account is not None
    shop = await gate.world.add_connection("shop\x1b[31m")
    await had(gate.world, account.principal, shop, {"EMAIL": 3}, refused=2)
    await gate.world.services().postprocessing.once()


def test_reports_are_shown_as_tables_and_as_json(root: Served) -> None:
    assert "Nothing was masked" in root.ok("reports", "sessions").stderr
    root.run(fill(root))
    days = ("--since", f"{root.world.clock():%Y-%m-%d}")
    assert root.ok("reports", "sessions", *days).stdout == "shop\\x1b[31m\tEMAIL\t3\n"
    assert root.ok("reports", "sessions", "--group-by", "user", *days).stdout == f"{ANN}\tEMAIL\t3\n"
    assert root.json("reports", "sessions", *days)["total_redact_count"] == 3
    line = root.ok("reports", "activity", *days, "--by", "month", "--group-by", "user").stdout.split("\t")
    assert line[1:7] == [ANN, "1", "0", "0", "3", "2"]
    assert root.json("reports", "activity", *days)["total"]["refused"] == 2


def test_a_report_of_reviews_is_shown(root: Served) -> None:
    assert "No reviews." in root.ok("reports", "reviews", "--since", "2026-01-01", "--until", "2026-02-01").stderr
    shown = root.json("reports", "reviews", "--group-by", "group")
    assert (shown["group_by"], shown["items"], shown["total"]["median_seconds"]) == ("group", [], None)


def test_reports_are_counted_anew(root: Served) -> None:
    root.run(fill(root))
    root.ok("reports", "rebuild")
    days = ("--since", f"{root.world.clock():%Y-%m-%d}")
    assert root.json("reports", "sessions", *days)["total_redact_count"] == 0
    root.run(root.world.services().postprocessing.once())
    assert root.json("reports", "sessions", *days)["total_redact_count"] == 3


def test_what_is_wrong_is_said(root: Served) -> None:
    wrong = root.cli("reports", "sessions", "--since", "soon")
    assert (wrong.exit_code, "--since" in wrong.stderr) == (2, True)
