"""A whole gateway keeps its ledger by itself, and what it gives out is proven elsewhere."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.running import Gateway, started

from postern.cli.main import cli


def run(gateway: Gateway, *arguments: str) -> str:
    result = CliRunner().invoke(cli, arguments, env=dict.fromkeys(os.environ) | gateway.environment)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.slow
def test_a_session_is_told_signed_anchored_exported_and_proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    anchor = tmp_path / "anchors.jsonl"
    monkeypatch.setattr(Gateway, "__post_init__", _with(anchor, Gateway.__post_init__))
    with started() as gateway:
        run(gateway, "exec", "shop-demo", "-c", "select 1")
        end = time.monotonic() + 30
        while not anchor.exists() and time.monotonic() < end:
            time.sleep(0.1)
        [line] = anchor.read_text().splitlines()
        assert json.loads(line)["number"] >= 1
        key, export = tmp_path / "ledger.pem", tmp_path / "export.tar"
        key.write_text(run(gateway, "recordings", "key"))
        run(gateway, "recordings", "export", "-o", str(export))
        assert "is signed by the key" in gateway.log
        report = json.loads(
            run(gateway, "sessions", "verify", str(export), "--key", str(key), "--checkpoint", str(anchor), "--json")
        )
    assert report["good"]
    assert report["anchored"] == 1
    assert report["sessions_proven"] + report["sessions_open"] == 1


def _with(anchor: Path, before: object) -> object:
    def prepare(gateway: Gateway) -> None:
        before(gateway)  # type: ignore[operator]
        gateway.environment["POSTERN_ANCHOR_FILE"] = str(anchor)

    return prepare
