"""The proof of one session: what the store says about it, and its verification."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.support.recorded import Records

from postern.domain.identity.principal import Principal
from postern.domain.sessions.retention import PurgeScope
from postern.errors import Conflict, NotFound, TooMany
from postern.proof.proof_findings import FindingKind
from postern.services.bundle import Services
from postern.services.recordings import session_proofs
from postern.services.recordings.session_proofs import ProofState, SessionProof


@pytest.fixture
def services(records: Records) -> Services:
    return records.services()


async def prove(records: Records, services: Services, session: UUID) -> SessionProof:
    return await services.session_proofs.verify(records.user, str(session))


async def signed(records: Records, services: Services, count: int = 3) -> UUID:
    """A session under a checkpoint, between others."""
    await records.recorded(1)
    session = await records.recorded(count, script="select name from people")
    await records.recorded(1)
    await services.checkpoints.make(records.user)
    return session


async def test_states_follow_the_session_and_its_checkpoint(records: Records, services: Services) -> None:
    session = await records.open()

    async def state() -> ProofState:
        return (await services.session_proofs.get(records.user, str(session))).state

    assert await state() is ProofState.OPEN
    await records.store(session, 2)
    await records.end(session, size=2000)
    assert await state() is ProofState.PENDING
    await services.ledger.write()
    assert await state() is ProofState.PENDING
    await services.checkpoints.make(records.user)
    assert await state() is ProofState.SIGNED
    await prove(records, services, session)
    assert await state() is ProofState.VERIFIED


async def test_proof_names_entries_segments_checkpoint_and_anchors(records: Records, services: Services) -> None:
    session = await signed(records, services)
    proof = await services.session_proofs.get(records.user, str(session))
    assert proof.opened is not None
    assert proof.closed is not None
    assert proof.checkpoint is not None
    assert (proof.opened.session_id, proof.closed.session_id, proof.purged) == (session, session, None)
    assert proof.is_complete is True
    assert [segment.number for segment in proof.segments] == [1, 2, 3]
    checkpoint, anchors = proof.checkpoint
    assert checkpoint.number >= proof.closed.number
    assert [(state.anchor, state.done_at is not None) for state in anchors] == [("held", True)]
    assert proof.verification is None


async def test_verification_proves_an_untouched_session_and_is_stored(records: Records, services: Services) -> None:
    session = await signed(records, services)
    proof = await prove(records, services, session)
    assert proof.findings == []
    assert proof.verification is not None
    assert (proof.verification.segments, proof.verification.findings) == (3, 0)
    assert proof.verification.size == sum(segment.size for segment in proof.segments)
    assert proof.verification.by_email == records.user.email
    again = await prove(records, services, session)
    assert again.verification is not None
    assert again.verification.at > proof.verification.at


async def test_session_under_two_checkpoints_is_proven(records: Records, services: Services) -> None:
    """Its start is signed by an earlier checkpoint than its end."""
    session = await records.open()
    await services.checkpoints.make(records.user)
    await signed(records, services)
    await records.store(session, 2)
    await records.end(session, size=2000)
    await services.checkpoints.rotate(records.user)
    await services.checkpoints.make(records.user)
    proof = await prove(records, services, session)
    assert (proof.state, proof.findings) == (ProofState.VERIFIED, [])


async def test_session_without_a_recording_is_proven(records: Records, services: Services) -> None:
    session = await signed(records, services, count=0)
    proof = await prove(records, services, session)
    assert (proof.state, proof.findings, proof.segments) == (ProofState.VERIFIED, [], ())


CHANGES: dict[str, tuple[str, FindingKind]] = {
    "user": ("update sessions set user_name = 'x' where id = :id", FindingKind.CHANGED),
    "script": ("update sessions set script = 'select 1' where id = :id", FindingKind.CHANGED),
    "end": ("update sessions set exit_code = 7 where id = :id", FindingKind.CHANGED),
    "segment's row": ("update segments set size = size + 1 where session_id = :id", FindingKind.CHANGED),
    "segment's deletion": ("delete from segments where session_id = :id and number = 2", FindingKind.MISSING),
    "last segment's deletion": ("delete from segments where session_id = :id and number = 3", FindingKind.MISSING),
    "entry": (
        "update ledger set content = replace(content, 'complete', 'complate') where session_id = :id",
        FindingKind.CHANGED,
    ),
    "entry's deletion": ("delete from ledger where session_id = :id and kind = 'opened'", FindingKind.MISSING),
    "entry's number": ("update sessions set opened_entry = 1 where id = :id", FindingKind.MISSING),
    "entry's hash": ("update ledger set hash = :hash where session_id = :id and kind = 'closed'", FindingKind.CHANGED),
    "signature": ("update checkpoints set signature = :zeros", FindingKind.FORGED),
    "hash of the checkpoint": ("update checkpoints set hash = :hash", FindingKind.FORGED),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_change_in_the_database_is_found(records: Records, services: Services, name: str) -> None:
    statement, kind = CHANGES[name]
    if name == "entry" and not records.world.database.is_sqlite:
        statement = (
            "update ledger set content = convert_to(replace(convert_from(content, 'UTF8'), 'complete', 'complate'),"
            " 'UTF8') where session_id = :id"
        )
    session = await signed(records, services)
    values: dict[str, object] = {"id": records.key_of(session), "zeros": bytes(64), "hash": bytes(32)}
    used = {key: value for key, value in values.items() if f":{key}" in statement}
    assert await records.sql(statement, **used) > 0
    proof = await prove(records, services, session)
    if name == "entry" and records.world.database.is_sqlite:
        kind = FindingKind.UNREADABLE  # the column has a text now
    assert kind in {finding.what for finding in proof.findings}
    assert proof.state is ProofState.CHANGED
    assert proof.verification is not None
    assert proof.verification.findings >= 1


async def test_unreadable_row_is_found(records: Records, services: Services) -> None:
    if not records.world.database.is_sqlite:
        pytest.skip("PostgreSQL rejects such values")
    session = await signed(records, services)
    await records.sql("update segments set digest = 7 where session_id = :id", id=records.key_of(session))
    proof = await prove(records, services, session)
    assert FindingKind.UNREADABLE in {finding.what for finding in proof.findings}


def _replace(file: Path) -> None:
    file.write_bytes(b"x" * 100)


@pytest.mark.parametrize("change", [Path.unlink, _replace])
async def test_changed_file_of_a_segment_is_found(
    records: Records, services: Services, change: Callable[[Path], Any]
) -> None:
    session = await signed(records, services)
    change(records.folder / f"{session}.000002.rec.zst")
    proof = await prove(records, services, session)
    assert [(finding.what, finding.segment) for finding in proof.findings] == [(FindingKind.UNREADABLE, 2)]
    assert proof.verification is not None
    assert proof.verification.segments == 2


async def test_change_of_another_session_is_not_a_finding(records: Records, services: Services) -> None:
    session = await signed(records, services)
    statement = "update sessions set user_name = 'x' where id <> :id"
    assert await records.sql(statement, id=records.key_of(session)) == 2
    assert (await prove(records, services, session)).findings == []


async def test_purged_recording_is_proven_without_its_segments(records: Records, services: Services) -> None:
    session = await signed(records, services)
    await records.sql("update sessions set pending = 0")  # reports have counted them
    await services.purges.purge(records.user, str(session), PurgeScope.RECORDING, "by law")
    with pytest.raises(Conflict, match="no checkpoint covers this session yet"):
        await prove(records, services, session)
    await records.sql("delete from segments where session_id = :id", id=records.key_of(session))
    await services.checkpoints.make(records.user)
    proof = await prove(records, services, session)
    assert (proof.state, proof.findings) == (ProofState.PURGED, [])
    assert proof.purged is not None


async def test_only_a_finished_signed_session_can_be_verified(records: Records, services: Services) -> None:
    session = await records.open()
    with pytest.raises(Conflict, match="has not ended"):
        await prove(records, services, session)
    await records.end(session, size=0)
    with pytest.raises(Conflict, match="no checkpoint covers this session yet"):
        await prove(records, services, session)
    assert (await services.session_proofs.get(records.user, str(session))).verification is None


async def test_work_of_a_request_is_bounded(
    records: Records, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await signed(records, services)
    monkeypatch.setattr(session_proofs, "MAX_ENTRIES", 2)
    with pytest.raises(Conflict, match=r"postern recordings verify"):
        await prove(records, services, session)
    monkeypatch.setattr(session_proofs, "MAX_SIZE", 100)
    with pytest.raises(Conflict, match=r"a request verifies at most 100; run `postern recordings verify`"):
        await prove(records, services, session)
    limit = services.session_proofs.limit
    with limit.acquire(records.user.id), limit.acquire(records.user.id), pytest.raises(TooMany):
        await prove(records, services, session)


async def test_entries_are_read_in_pages(records: Records, services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_proofs, "_PAGE", 2)
    session = await signed(records, services)
    assert (await prove(records, services, session)).state is ProofState.VERIFIED


async def test_proof_is_for_the_owner_and_those_who_see_all(records: Records, services: Services) -> None:
    session = await signed(records, services)
    stranger: Principal = await records.world.add_user("bob")
    auditor = await records.world.add_user("otto", "auditor")
    with pytest.raises(NotFound):
        await services.session_proofs.get(stranger, str(session))
    with pytest.raises(NotFound):
        await services.session_proofs.verify(stranger, str(session))
    assert (await services.session_proofs.verify(auditor, str(session))).state is ProofState.VERIFIED
