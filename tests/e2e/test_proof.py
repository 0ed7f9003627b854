"""A whole gateway keeps its ledger automatically, and its exports are verified elsewhere."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

import pytest
from tests.support.promises import wait_until
from tests.support.running import Gateway, started

DBA = "dba@example.com"


def ok(gateway: Gateway, *arguments: str, stdin: str | None = None) -> str:
    done = gateway.run(*arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


def reports(gateway: Gateway, folder: Path, *given: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Of an export, and of the store."""
    export = folder / "export.tar"
    export.unlink(missing_ok=True)
    ok(gateway, "recordings", "export", "-o", str(export))
    offline = json.loads(gateway.run("sessions", "verify", str(export), *given, "--json").stdout)
    return offline, json.loads(gateway.run("recordings", "verify", *given, "--json").stdout)["default"]


@pytest.mark.slow
def test_session_is_recorded_in_the_ledger_signed_anchored_exported_and_proven(tmp_path: Path) -> None:
    anchor, key = tmp_path / "anchors.jsonl", tmp_path / "ledger.pem"
    with started("--anchor-file", str(anchor)) as gateway:
        ok(gateway, "exec", "shop-demo", "-i", "select 1")
        wait_until(lambda: anchor.exists() and anchor.read_text().endswith("\n"), 120)
        assert json.loads(anchor.read_text().splitlines()[0])["number"] >= 1
        key.write_text(ok(gateway, "recordings", "key"))
        wait_until(lambda: "signing key of the ledger" in gateway.log)
        for one in reports(gateway, tmp_path, "--key", str(key), "--checkpoint", str(anchor)):
            assert one["good"], one["findings"]
            assert one["anchored"] == 1
            assert one["sessions_proven"] + one["sessions_open"] == 1


@pytest.mark.slow
def test_sessions_after_a_review_are_proven_with_the_review_and_the_audit_log(tmp_path: Path) -> None:
    """The ledger is written while a session waits, and again after it ran."""
    key = tmp_path / "ledger.pem"
    with started() as gateway:
        ok(gateway, "connections", "update", "shop-demo", "--set", "reviewers=dba")
        password = secrets.token_urlsafe(20)
        ok(gateway, "admin", "users", "create", DBA, "--group", "dba", "--password-stdin", stdin=password)
        url = gateway.told["api_url"]
        ok(gateway, "login", url, "--email", DBA, "--password-stdin", "--profile", "dba", stdin=password)
        key.write_text(ok(gateway, "recordings", "key"))
        decided = {}
        for decision in ("approve", "reject"):
            waiting = gateway.run("exec", "shop-demo", "-i", "select 1", "--no-wait", "--json")
            assert waiting.returncode == 7, waiting.stderr
            shown = json.loads(waiting.stdout)
            decided[decision] = shown["session_id"]
            assert all(one["good"] for one in reports(gateway, tmp_path, "--key", str(key)))
            ok(gateway, "reviews", decision, shown["review"]["id"], "--profile", "dba")
        ok(gateway, "exec", "--resume", decided["approve"])

        def proven() -> bool:
            ok(gateway, "recordings", "checkpoint")
            found = reports(gateway, tmp_path, "--key", str(key))
            for one in found:
                assert one["good"], one["findings"]
                assert one["records_proven"] >= 6  # the changes made above, and two reviews
            return all(one["sessions_proven"] == 2 for one in found)

        wait_until(proven, 120)
