"""Manipulations of the store in SQL are found, and an untouched store is proven."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest
from tests.support.recorded import Records

from postern.domain.sessions.ledger import Damaged, EntryKind, Recorded
from postern.proof.proof_findings import FindingKind, VerificationReport
from postern.services.bundle import Services
from postern.services.recordings.verifier import RecordVerifier
from postern.store.sql.recordings.sql_ledger import SqlLedger


async def a_record(records: Records) -> tuple[Services, list[UUID]]:
    """Three sessions under two checkpoints, and one that is open."""
    services = records.services()
    sessions = [await records.recorded(2)]
    await services.checkpoints.make(records.user)
    sessions.append(await records.recorded(3, script="select name from people"))
    sessions.append(await records.recorded(0))
    await records.open()
    await services.checkpoints.make(records.user)
    return services, sessions


async def verified(records: Records, services: Services) -> VerificationReport:
    return await services.verifier.verify(records.world.org_id)


def kinds(report: VerificationReport) -> set[FindingKind]:
    return {one.what for one in report.findings}


async def test_untouched_store_is_proven_with_and_without_segments(records: Records) -> None:
    services, _ = await a_record(records)
    report = await verified(records, services)
    assert report.is_good, report.findings
    assert (report.sessions_proven, report.sessions_open, report.segments_proven) == (3, 1, 5)
    quick = await services.verifier.verify(records.world.org_id, with_segments=False)
    assert quick.is_good, quick.findings
    assert (quick.sessions_proven, quick.segments_proven, quick.segments_unproven) == (3, 0, 5)


async def test_sessions_after_the_newest_checkpoint_are_pending_and_not_a_finding(records: Records) -> None:
    services, _ = await a_record(records)
    await records.open(script="select 2")
    await records.recorded(1)
    report = await verified(records, services)
    assert report.is_good, report.findings
    assert report.sessions_pending == 2
    await services.ledger.write()
    report = await verified(records, services)
    assert report.is_good, report.findings
    assert (report.sessions_pending, report.after_checkpoint) == (2, 3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("user", "somebody@example.com"),
        ("user_id", "somebody"),
        ("user_name", "Somebody"),
        ("connection", "other"),
        ("connection_subtype", "mysql"),
        ("type", "custom"),
        ("verb", "connect"),
        ("source", "198.51.100.1"),
        ("script", "select 1"),
        ("exit_code", 7),
        ("end_reason", "killed"),
        ("end_detail", "it was somebody else"),
    ],
)
async def test_fact_of_a_closed_session_edited_in_the_database_is_found(
    records: Records, name: str, value: object
) -> None:
    services, [_, second, _] = await a_record(records)
    statement = f'update sessions set "{name}" = :value where id = :id'
    assert await records.sql(statement, value=value, id=_key(records, second)) == 1
    report = await verified(records, services)
    assert kinds(report) == {FindingKind.CHANGED}
    assert {one.session for one in report.findings} == {second}
    assert report.sessions_proven == 2


@pytest.mark.parametrize("name", ["start_date", "end_date"])
async def test_start_or_end_date_edited_in_the_database_is_found(records: Records, name: str) -> None:
    services, [first, *_] = await a_record(records)
    moved = "datetime({}, '+1 second')" if records.world.database.is_sqlite else "{} + interval '1 second'"
    statement = f"update sessions set {name} = {moved.format(name)} where id = :id"
    assert await records.sql(statement, id=_key(records, first)) == 1
    assert kinds(await verified(records, services)) == {FindingKind.CHANGED}


async def test_session_deleted_in_the_database_is_found(records: Records) -> None:
    services, [_, second, _] = await a_record(records)
    await records.sql("delete from sessions where id = :id", id=_key(records, second))
    report = await verified(records, services)
    assert [(one.what, one.session) for one in report.findings] == [(FindingKind.MISSING, second)]


async def test_session_reset_to_unrecorded_and_edited_is_found(records: Records) -> None:
    """The writer then records it again, with its changed facts."""
    services, [_, second, _] = await a_record(records)
    await records.sql(
        "update sessions set opened_entry = null, closed_entry = null, user_name = 'x' where id = :id",
        id=_key(records, second),
    )
    await services.checkpoints.make(records.user)
    report = await verified(records, services)
    assert {FindingKind.DOUBLED, FindingKind.CHANGED} <= kinds(report)
    assert second in {one.session for one in report.findings}


async def test_invented_session_with_the_entries_of_another_is_found(records: Records) -> None:
    services, _ = await a_record(records)
    invented = await records.recorded(0)
    await records.sql(
        "update sessions set opened_entry = 3, closed_entry = 5 where id = :id", id=_key(records, invented)
    )
    report = await verified(records, services)
    assert [(one.what, one.session) for one in report.findings] == [(FindingKind.FOREIGN, invented)]


@pytest.mark.parametrize(
    ("number", "what"), [(1, FindingKind.MISSING), (4, FindingKind.MISSING), (7, FindingKind.TRUNCATED)]
)
async def test_ledger_entry_deleted_in_the_database_is_found(records: Records, number: int, what: FindingKind) -> None:
    services, _ = await a_record(records)
    await records.sql("delete from ledger where number = :number", number=number)
    report = await verified(records, services)
    assert what in kinds(report)
    assert number in {one.entry for one in report.findings}


async def test_ledger_entry_edited_in_the_database_is_found(records: Records) -> None:
    services, _ = await a_record(records)
    [entry] = await records.world.stores.ledger.entries(records.world.org_id, 3, 3)
    changed = entry.content.replace(b'"segments":2', b'"segments":1').replace(b"opened", b"closed")
    await records.sql("update ledger set content = :content where number = 3", content=changed)
    report = await verified(records, services)
    assert FindingKind.CHANGED in kinds(report)
    assert 3 in {one.entry for one in report.findings}


async def test_segment_row_deleted_in_the_database_is_found(records: Records) -> None:
    services, [_, second, _] = await a_record(records)
    await records.sql("delete from segments where session_id = :id and number = 2", id=_key(records, second))
    report = await verified(records, services)
    assert [(one.what, one.session, one.segment) for one in report.findings] == [(FindingKind.MISSING, second, 2)]


async def test_segment_with_changed_bytes_or_row_is_found(records: Records) -> None:
    services, [first, *_] = await a_record(records)
    file = records.folder / f"{first}.000001.rec.zst"
    file.write_bytes(file.read_bytes()[:-1])
    report = await verified(records, services)
    assert [(one.what, one.session, one.segment) for one in report.findings] == [(FindingKind.UNREADABLE, first, 1)]
    file.unlink()
    assert kinds(await verified(records, services)) == {FindingKind.UNREADABLE}
    statement = "update segments set digest = :digest where session_id = :id and number = 1"
    await records.sql(statement, digest=b"\1" * 32, id=_key(records, first))
    assert FindingKind.CHANGED in kinds(await services.verifier.verify(records.world.org_id, with_segments=False))


async def test_rewritten_history_is_found_with_the_original_key_and_anchors(records: Records) -> None:
    services, _ = await a_record(records)
    kept = (await services.checkpoints.signing(records.world.org_id)).public
    anchors = list(records.anchor.lines)
    for table in ("checkpoint_anchors", "checkpoints", "ledger_keys", "ledger", "ledger_heads"):
        await records.sql(f"delete from {table}")
    await records.sql("update sessions set user_name = 'x', opened_entry = null, closed_entry = null")
    await records.services().checkpoints.make(records.user)
    assert (await verified(records, services)).is_good  # of itself it is a history like any other
    report = await services.verifier.verify(records.world.org_id, keys=[kept], anchors=anchors)
    assert {FindingKind.FORGED, FindingKind.REWRITTEN} & kinds(report)


class Moving(SqlLedger):
    """Something happens between the check of the sessions and that of their segments."""

    def __init__(self, records: Records, happens: Callable[[], Awaitable[object]]) -> None:
        super().__init__(records.world.database)
        self._happens = happens
        self._passes = 0

    async def read_sessions(self, org_id: UUID, after: Any, limit: int, **more: Any) -> list[Recorded | Damaged]:
        self._passes += after is None
        if self._passes == 2 and after is None:
            await self._happens()
        return await super().read_sessions(org_id, after, limit, **more)


async def test_changes_during_a_verification_are_not_a_finding(records: Records) -> None:
    _, [_, second, third] = await a_record(records)
    services, org_id = records.services(), records.world.org_id
    going_on = await records.open()
    await records.store(going_on, 3, numbers=[1])

    async def happens() -> None:
        await records.store(going_on, 3, numbers=[2, 3])
        await records.recorded(2)
        for session, what in ((second, "recording"), (third, "session")):
            await services.ledger.note(org_id, EntryKind.PURGED, session, what=what, reason="retention")
        await records.sql("delete from segments where session_id = :id", id=_key(records, second))
        await records.sql("delete from sessions where id = :id", id=_key(records, third))

    store = Moving(records, happens)
    report = await RecordVerifier(
        store, records.world.stores.ledger_keys, records.copies(), records.world.clock
    ).verify(org_id)
    assert report.is_good, report.findings


async def test_purged_recording_and_session_are_counted_and_not_a_finding(records: Records) -> None:
    services, [_, second, third] = await a_record(records)
    org_id = records.world.org_id
    await services.ledger.note(org_id, EntryKind.PURGED, second, what="recording", reason="retention")
    await services.ledger.note(org_id, EntryKind.PURGED, third, what="session", reason="retention")
    await records.sql("delete from segments where session_id = :id", id=_key(records, second))
    await records.sql("delete from sessions where id = :id", id=_key(records, third))
    await services.checkpoints.make(records.user)
    report = await verified(records, services)
    assert report.is_good, report.findings
    assert report.sessions_purged == 1


def _key(records: Records, session: UUID) -> object:
    return session.hex if records.world.database.is_sqlite else session
