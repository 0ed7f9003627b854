from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.api.conftest import Api, make_api, message
from tests.support.recorded import HeldAnchor, Records
from tests.support.recordings import KEYS
from tests.support.world import MACHINE

from postern.archive.folder import FolderBlobs
from postern.proof.export_reading import verify_package
from postern.proof.proof_checkpoints import read_pem
from postern.recording.recording_copies import StoredCopies
from postern.store.database import Database


@pytest.fixture
async def anchor() -> HeldAnchor:
    return HeldAnchor()


@pytest.fixture
async def proving(sqlite_database: Database, tmp_path: Path, anchor: HeldAnchor) -> tuple[Api, Records]:
    machine = replace(MACHINE, copies=StoredCopies(FolderBlobs(tmp_path), KEYS), anchors=lambda: (anchor,))
    api = await make_api(sqlite_database, machine=machine)
    return api, Records(api.world, tmp_path, api.users["ann"], await api.world.add_connection())


async def test_checkpoints_are_made_and_listed_with_their_anchors(
    proving: tuple[Api, Records], anchor: HeldAnchor
) -> None:
    api, records = proving
    assert "the ledger is empty" in message(await api.as_admin.post("/recordings/checkpoints"), 409)
    await records.recorded()
    anchor.away = True
    made = await api.as_admin.post("/recordings/checkpoints")
    assert made.status_code == 201, made.text
    listed = (await api.as_auditor.get("/recordings/checkpoints")).json()
    [one] = listed["data"]
    assert one["number"] == made.json()["number"] == 3  # opened, closed, and the audit entry of the refusal
    assert one["anchors"] == [{"anchor": "held", "reached_at": None, "attempts": 1, "error": "the anchor is away"}]
    entries = (await api.as_admin.get("/audit/logs")).json()["data"]
    assert [entry["after"]["number"] for entry in entries if entry["after"]] == [3]


async def test_an_export_streams_and_is_verified_by_the_key_of_before(
    proving: tuple[Api, Records], tmp_path: Path
) -> None:
    api, records = proving
    await records.recorded(3)
    keys = (await api.as_auditor.get("/recordings/key")).json()["keys"]
    public = read_pem(keys[0]["public_key"].encode())
    assert (await api.as_admin.post("/recordings/key/rotate")).status_code == 200
    await records.recorded(1)
    answer = await api.as_auditor.get("/recordings/export")
    assert answer.headers["content-type"] == "application/x-tar"
    path = tmp_path / "export.tar"
    path.write_bytes(answer.content)
    report = verify_package(path, public)
    assert report.is_good, report.findings
    assert (report.sessions_proven, report.segments_proven, report.checkpoints) == (2, 4, 2)
    bad = await api.as_auditor.get("/recordings/export?since=2030-01-02T00:00:00Z&until=2030-01-01T00:00:00Z")
    assert "until" in message(bad, 422)


async def test_proof_of_a_session_is_answered_and_its_verification_audited(proving: tuple[Api, Records]) -> None:
    api, records = proving
    session = await records.recorded(2)
    url = f"/sessions/{session}/proof"
    pending = (await api.as_ann.get(url)).json()
    assert (pending["state"], pending["checkpoint"], pending["is_sealed"]) == ("pending", None, False)
    assert "no checkpoint covers this session yet" in message(await api.as_ann.post(url), 409)
    await api.as_admin.post("/recordings/checkpoints")
    answer = await api.as_ann.post(url)
    assert answer.status_code == 200, answer.text
    verified = answer.json()
    assert (verified["state"], verified["is_sealed"], verified["is_complete"]) == ("verified", True, True)
    assert [segment["number"] for segment in verified["segments"]] == [1, 2]
    assert [len(segment["digest"]) for segment in verified["segments"]] == [64, 64]
    assert verified["segment_count"] == 2
    assert verified["verification"]["by"] == "ann@example.com"
    assert [anchor["anchor"] for anchor in verified["checkpoint"]["anchors"]] == ["held"]
    assert (await api.as_auditor.get(url)).json() == verified
    message(await api.as_bob.get(url), 404)
    message(await api.as_bob.post(url), 404)
    entries = (await api.as_admin.get("/audit/logs")).json()["data"]
    audited = [entry for entry in entries if entry["action"] == "verify"]
    assert {entry["resource_type"] for entry in audited} == {"sessions"}
    assert sorted(entry["http_status"] for entry in audited) == [200, 404, 409]
    [done] = [entry for entry in audited if entry["http_status"] == 200]
    assert done["after"] == {"id": str(session), "findings": 0, "segments": 2}
