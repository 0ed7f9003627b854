"""Proof on the command line: of a gateway, and offline with an export and a key."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest
from click.testing import CliRunner, Result
from tests.support.aws import BUCKET, object_storage
from tests.support.proofs import a_record, unpack
from tests.support.recorded import Records
from tests.support.served import Served
from tests.support.world import World

from postern.cli.main import cli
from postern.proof.proof_checkpoints import format_line, public_pem
from postern.settings import Settings
from postern.store.database import Database
from postern.store.encryption import file_key
from postern.wiring import masters_wiring, paths
from postern.wiring.blobs import KeysForThreads

pytestmark = pytest.mark.ci


@pytest.fixture
def proving(gate: Served, tmp_path: Path) -> Records:
    gate.log_in()
    connection = gate.run(gate.world.add_connection())
    return Records(gate.world, tmp_path, gate.root, connection)


def test_from_a_session_to_its_proof(gate: Served, proving: Records, tmp_path: Path) -> None:
    # The log-in is in the audit log, which the ledger seals, before there is any session.
    first = gate.json("recordings", "checkpoint")["number"]
    gate.run(proving.recorded(0, script="select 'one'"))
    newest = gate.json("recordings", "checkpoint")["number"]
    assert newest >= first + 3  # opened, closed, and the audit entries since
    key = tmp_path / "ledger.pem"
    key.write_text(gate.ok("recordings", "key").stdout)
    assert gate.json("recordings", "checkpoints")["data"][0]["number"] == newest
    assert "is now signed with" in gate.ok("recordings", "rotate-key", "--yes").stdout
    gate.run(proving.recorded(0))
    for name in ("all.tar", "all"):
        output = tmp_path / name
        assert gate.json("recordings", "export", "-o", str(output)) == {"written": str(output)}
        report = gate.json("sessions", "verify", str(output), "--key", str(key))
        assert (report["good"], report["sessions_proven"]) == (True, 2)
        assert "already" in gate.cli("recordings", "export", "-o", str(output)).output
    assert not list(tmp_path.glob("*.partial"))
    assert (tmp_path / "all.tar").stat().st_mode & 0o777 == 0o600


def test_an_export_of_a_time_that_is_no_time_leaves_nothing_behind(
    gate: Served, proving: Records, tmp_path: Path
) -> None:
    result = gate.cli("recordings", "export", "--since", "soon", "-o", str(tmp_path / "x.tar"))
    assert result.exit_code == 2
    assert "since" in result.output
    assert not list(tmp_path.glob("x.tar*"))


@pytest.fixture
def export(tmp_path: Path) -> tuple[Path, Path]:
    """(export, key)"""
    made = a_record()
    path, key, anchor = tmp_path / "export.tar", tmp_path / "ledger.pem", tmp_path / "anchors.jsonl"
    path.write_bytes(made.pack())
    key.write_text(public_pem(made.key.public))
    anchor.write_bytes(b"".join(format_line(one) + b"\n" for one in made.checkpoints))
    return path, key


def verify(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["sessions", "verify", *map(str, arguments)])


def test_it_works_in_a_process_without_a_network_a_gateway_or_a_home(export: tuple[Path, Path]) -> None:
    path, key = export
    code = (
        "import socket, sys\n"
        "def no(*a, **k): raise AssertionError('it used the network')\n"
        "socket.socket.connect = socket.socket.bind = socket.getaddrinfo = no\n"
        "from postern.cli.main import main\n"
        f"sys.argv = ['postern', 'sessions', 'verify', {str(path)!r}, '--key', {str(key)!r}, '--json']\n"
        "main()"
    )
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "HOME": "/nonexistent"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["segments_proven"] == 6


def test_findings_are_told_in_full_and_end_with_1(export: tuple[Path, Path], tmp_path: Path) -> None:
    path, key = export
    result = verify(path, "--key", key, "--checkpoint", tmp_path / "anchors.jsonl")
    assert result.exit_code == 0, result.output
    assert "Nothing was changed." in result.output
    folder = unpack(path.read_bytes(), tmp_path / "folder")
    [*_, last] = sorted(folder.glob("segments/*"))
    data = bytearray(last.read_bytes())
    data[-100] ^= 1
    last.write_bytes(data)
    result = verify(folder, "--key", key)
    assert result.exit_code == 1
    assert "FOUND changed: segment 1 of session 00000000-0000-0000-0000-0000000003ec" in result.output
    assert "in bytes " in result.output
    findings = json.loads(verify(folder, "--key", key, "--json").stdout)["findings"]
    assert findings[0]["segment"] == 1
    assert 0 < findings[0]["begin"] < findings[0]["end"]


def test_what_is_no_key_or_no_export_is_said_to_be_none(export: tuple[Path, Path], tmp_path: Path) -> None:
    path, key = export
    for arguments, said in (
        ((path, "--key", path), "no public key"),
        ((path, "--key", tmp_path / "away"), "cannot be read"),
        ((key, "--key", key), "not an export"),
        ((tmp_path / "away", "--key", key), "does not exist"),
    ):
        result = verify(*arguments)
        assert result.exit_code == 1
        assert said in result.output


@pytest.fixture
def home(tmp_path: Path, migrated: Path) -> Path:
    """A gateway's data folder with a recorded session, under a checkpoint."""
    settings = Settings(home=tmp_path / "home")
    (settings.home / "recordings").mkdir(parents=True)
    shutil.copy(migrated, paths.store(settings))
    masters_wiring.master(settings)

    async def fill() -> None:
        database = Database(settings.url)
        world = await World.make(database, file_key(paths.encryption_key(settings)))
        records = await Records.make(world, settings.home / "recordings")
        records.keys = KeysForThreads(world.encryption, asyncio.get_running_loop())
        await records.recorded(2)
        await records.services().checkpoints.make(records.user)
        await database.close()

    asyncio.run(fill())
    return settings.home


def test_the_gateways_own_store_is_verified_where_a_bucket_holds_the_recordings(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with object_storage() as storage:
        for name, value in storage.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("POSTERN_RECORDINGS_URL", f"s3://{BUCKET}?allow_http=true")
        first, second = sorted((home / "recordings").iterdir())
        for file in (first, second):
            storage.client.put_object(Bucket=BUCKET, Key=file.name, Body=file.read_bytes())
            file.unlink()

        def run() -> Result:
            return CliRunner().invoke(cli, ["recordings", "verify", "--home", str(home)])

        assert run().exit_code == 0, run().output
        assert "1, in 2 segments" in run().output
        storage.client.copy_object(Bucket=BUCKET, Key=second.name, CopySource=f"{BUCKET}/{first.name}")
        assert run().exit_code == 1
        assert "FOUND unreadable: segment 2" in run().output
        storage.client.delete_object(Bucket=BUCKET, Key=first.name)
        assert "FOUND unreadable: segment 1" in run().output


def test_the_gateways_own_store_is_verified_on_its_host(home: Path) -> None:
    def run(*more: str) -> Result:
        return CliRunner().invoke(cli, ["recordings", "verify", "--home", str(home), *more])

    result = run()
    assert result.exit_code == 0, result.output
    assert "1, in 2 segments" in result.output
    report = json.loads(run("--json", "--quick").stdout)["default"]
    assert (report["sessions_proven"], report["segments_unproven"]) == (1, 2)
    [file, _] = sorted((home / "recordings").iterdir())
    file.unlink()
    assert run("--quick").exit_code == 0
    result = run()
    assert result.exit_code == 1
    assert "FOUND unreadable: segment 1" in result.output
    assert "no organisation" in run("--organisation", "away").output


def test_proof_of_one_session_is_shown_and_verified(gate: Served, proving: Records) -> None:
    session = str(gate.run(proving.recorded(0)))
    assert "pending: no checkpoint covers" in gate.ok("sessions", "proof", session).stdout
    refused = gate.cli("sessions", "proof", session, "--verify")
    assert refused.exit_code != 0
    assert "postern recordings checkpoint" in refused.output
    gate.json("recordings", "checkpoint")
    shown = gate.ok("sessions", "proof", session[:8], "--verify").stdout
    assert "verified: the last verification found the session and its recording unchanged" in shown
    answer = gate.json("sessions", "proof", session)
    assert (answer["state"], answer["verification"]["is_good"], answer["findings"]) == ("verified", True, [])
    statement = "update sessions set user_name = 'x' where id = :id"
    gate.run(proving.sql(statement, id=proving.key_of(UUID(session))))
    changed = gate.cli("sessions", "proof", session, "--verify")
    assert changed.exit_code == 1
    assert "FOUND changed: session" in changed.output
    assert json.loads(gate.cli("sessions", "proof", session, "--verify", "--json").stdout)["state"] == "changed"
