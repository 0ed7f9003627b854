"""A whole gateway purges automatically by its retention, and proves it afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.promises import wait_until
from tests.support.running import Gateway, started


def is_done(gateway: Gateway, *arguments: str) -> bool:
    return gateway.run(*arguments).returncode == 0


@pytest.mark.slow
def test_session_purged_by_retention_leaves_only_its_ledger_entry(tmp_path: Path) -> None:
    key, export = tmp_path / "ledger.pem", tmp_path / "export.tar"
    with started() as gateway:
        for number in (1, 2, 3):
            assert is_done(gateway, "exec", "shop-demo", "-i", f"select {number}")
        first, second, third = [one["id"] for one in gateway.sessions()]
        kept = gateway.home / "recordings"
        wait_until(lambda: len(list(kept.rglob("*.rec.zst"))) == 3)
        assert is_done(gateway, "sessions", "legal-hold", "add", third, "--name", "case A", "--reason", "court order")
        purge = ("sessions", "purge", "--reason", "asked to", "--yes")
        wait_until(lambda: is_done(gateway, *purge, first, "--what", "session"))
        wait_until(lambda: is_done(gateway, *purge, second))
        refused = gateway.run(*purge, third)
        assert "case A" in refused.stderr
        wait_until(lambda: len(list(kept.rglob("*.rec.zst"))) == 1)
        wait_until(lambda: json.loads(gateway.run("sessions", "purges", "--json").stdout)["data"] == [])
        assert {one["id"] for one in gateway.sessions()} == {second, third}
        shown = gateway.run("sessions", "replay", second)
        assert "was purged" in shown.stderr
        assert is_done(gateway, "admin", "retention", "set", "--recordings", "1", "--sessions", "1", "--yes")
        key.write_text(gateway.run("recordings", "key").stdout)
        assert is_done(gateway, "recordings", "export", "-o", str(export))
        given = ("--key", str(key), "--json")
        report = json.loads(gateway.run("sessions", "verify", str(export), *given).stdout)
        own = json.loads(gateway.run("recordings", "verify", *given).stdout)["default"]
        assert "purging by retention paused" not in gateway.log  # the first start has nothing to protect
    for one in (report, own):
        assert one["good"], one["findings"]
        assert one["sessions_purged"] == 1
        assert one["sessions_proven"] == 2
