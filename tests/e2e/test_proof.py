"""A whole gateway keeps its ledger by itself, and what it gives out is proven elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.promises import wait_until
from tests.support.running import Gateway, started


def ok(gateway: Gateway, *arguments: str) -> str:
    done = gateway.run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_session_is_told_signed_anchored_exported_and_proven(tmp_path: Path) -> None:
    anchor, key, export = tmp_path / "anchors.jsonl", tmp_path / "ledger.pem", tmp_path / "export.tar"
    with started("--anchor-file", str(anchor)) as gateway:
        ok(gateway, "exec", "shop-demo", "-i", "select 1")
        wait_until(lambda: anchor.exists() and anchor.read_text().endswith("\n"), 120)
        [line] = anchor.read_text().splitlines()
        assert json.loads(line)["number"] >= 1
        key.write_text(ok(gateway, "recordings", "key"))
        ok(gateway, "recordings", "export", "-o", str(export))
        wait_until(lambda: "is signed by the key" in gateway.log)
        given = ("--key", str(key), "--checkpoint", str(anchor), "--json")
        report = json.loads(ok(gateway, "sessions", "verify", str(export), *given))
        own = json.loads(ok(gateway, "recordings", "verify", *given))["default"]
    for one in (report, own):
        assert one["good"], one["findings"]
        assert one["anchored"] == 1
        assert one["sessions_proven"] + one["sessions_open"] == 1
