"""The ledger seals audit entries, reviews, masking counts and violations: changes are found online and in exports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from sqlalchemy import insert, select
from tests.services.recordings.test_exports import exported, proven
from tests.support.recorded import Records
from tests.support.reviews import asked, decided

from postern.domain.reviews.review import KEPT, Choice, Review, ReviewEvent, ReviewKind
from postern.domain.sessions.ledger import EntryKind
from postern.domain.sessions.retention import PurgeScope as Purged
from postern.domain.sessions.session import EndReason
from postern.proof.proof_findings import FindingKind, VerificationReport
from postern.services.bundle import Services
from postern.store.ports.server_ports import AuditEntry
from postern.store.ports.target_ports import SessionEnd
from postern.store.schema.recording_tables import ledger_records, record_queue
from postern.store.schema.server_tables import audit_log

pytestmark = pytest.mark.ci


@dataclass
class Evidence:
    """Audit entries, reviews and a masked session, sealed in two batches, the second below a checkpoint."""

    records: Records
    services: Services
    entries: list[UUID]
    decided: Review
    standing: Review
    session: UUID

    @classmethod
    async def make(cls, records: Records) -> Evidence:
        services, world = records.services(), records.world
        entries = [await audited(records, number) for number in range(3)]
        rejected = await asked(world, records.user, kind=ReviewKind.STATEMENT, created_at=world.clock(), input="drop")
        standing = await asked(world, records.user, kind=ReviewKind.JIT, created_at=world.clock())
        await services.ledger.write()
        reviewer = await world.add_user("dba", "dba")
        await decided(world, rejected, reviewer, Choice.REJECTED, at=world.clock(), comment="not on Friday")
        await decided(world, standing, reviewer, at=world.clock(), comment="for the incident")
        entries += [await audited(records, number) for number in range(3, 5)]
        session = await records.open()
        metrics = {"refused": 2, "data_masking": {"total_redact_count": 5, "info_types": {"EMAIL": 5}}, "rate": 0.5}
        ended = SessionEnd(world.clock(), EndReason.CLIENT_CLOSED, exit_code=0, metrics=metrics, event_size=0)
        assert await world.stores.sessions.end(session, ended)
        await services.checkpoints.make(records.user)
        return cls(records, services, entries, rejected, standing, session)

    def key(self, of: UUID) -> object:
        return of.hex if self.records.world.database.is_sqlite else of

    async def sql(self, statement: str, of: UUID | None = None, **values: object) -> None:
        given = {"id": self.key(of)} if of is not None else {}
        assert await self.records.sql(statement, **given, **values) >= 1

    async def online(self) -> VerificationReport:
        return await self.services.verifier.verify(self.records.world.org_id)

    async def offline(self, tmp_path: Path) -> VerificationReport:
        return await proven(self.records, self.services, await exported(self.records, self.services, tmp_path))


async def audited(records: Records, number: int) -> UUID:
    world = records.world
    entry = AuditEntry(
        id=uuid4(),
        org_id=world.org_id,
        at=world.clock(),
        actor_id=records.user.id,
        actor_subject=records.user.subject,
        actor_email=records.user.email,
        action="update",
        resource_type="connections",
        resource=f"shop-{number}",
        method="PUT",
        path=f"/api/connections/{number}",
        status=200,
        outcome="success",
        source="192.0.2.7",
        request_id="r",
        body={"name": "shop", "rate": 0.25, "größe": [1, None, True]},
        before=None,
        after={"name": "shop"},
    )
    await world.stores.audit.add(entry)
    return entry.id


def kinds(report: VerificationReport) -> set[FindingKind]:
    return {one.what for one in report.findings}


async def test_untouched_records_are_proven_online_and_in_an_export(records: Records, tmp_path: Path) -> None:
    evidence = await Evidence.make(records)
    for report in (await evidence.online(), await evidence.offline(tmp_path)):
        assert report.is_good, report.findings
        # 5 audit entries; 2 reviews as asked, and as decided.
        assert (report.records_proven, report.records_pending) == (9, 0)


# What somebody changes by hand → what is found, and whether an export shows it as well.
_JSON_OF_AUDIT = "update audit_log set {} where id = :id"
ATTACKS: dict[str, tuple[str, str, FindingKind, bool]] = {
    "audit entry deleted": ("delete from audit_log where id = :id", "audit", FindingKind.MISSING, True),
    "actor changed": (_JSON_OF_AUDIT.format("actor_email = 'x@example.com'"), "audit", FindingKind.CHANGED, True),
    "action changed": (_JSON_OF_AUDIT.format("action = 'read'"), "audit", FindingKind.CHANGED, True),
    "body changed": (_JSON_OF_AUDIT.format("body = '{}'"), "audit", FindingKind.CHANGED, True),
    "after removed": (_JSON_OF_AUDIT.format("after = null"), "audit", FindingKind.CHANGED, True),
    "status changed": (_JSON_OF_AUDIT.format("status = 403"), "audit", FindingKind.CHANGED, True),
    "review deleted": ("delete from reviews where id = :id", "decided", FindingKind.MISSING, True),
    "decision changed": ("update reviews set status = 'APPROVED' where id = :id", "decided", FindingKind.CHANGED, True),
    "statement changed": ("update reviews set input = 'select 1' where id = :id", "decided", FindingKind.CHANGED, True),
    "statement wiped": ("update reviews set input = '' where id = :id", "decided", FindingKind.CHANGED, True),
    "reason changed": ("update reviews set reason = 'because' where id = :id", "standing", FindingKind.CHANGED, True),
    "requester changed": ("update reviews set owner = '{}' where id = :id", "standing", FindingKind.CHANGED, True),
    "window widened": ("update reviews set revoke_at = null where id = :id", "standing", FindingKind.CHANGED, True),
    "voice deleted": ("delete from review_voices where review_id = :id", "decided", FindingKind.CHANGED, True),
    "reviewer changed": (
        "update review_voices set reviewer = '{}' where review_id = :id", "standing", FindingKind.CHANGED, True,
    ),
    "comment changed": (
        "update review_voices set comment = '' where review_id = :id", "decided", FindingKind.CHANGED, True,
    ),
    "masking count changed": ("update sessions set masked = 0 where id = :id", "session", FindingKind.CHANGED, True),
    "refusals changed": ("update sessions set refused = 0 where id = :id", "session", FindingKind.CHANGED, True),
    "metrics changed": ("update sessions set metrics = '{}' where id = :id", "session", FindingKind.CHANGED, True),
    "review of a session changed": (
        "update sessions set review_id = id where id = :id", "session", FindingKind.CHANGED, True,
    ),
    "record deleted": ("delete from ledger_records where number = 2", "", FindingKind.MISSING, True),
    "newest record deleted": ("delete from ledger_records where number = 9", "", FindingKind.MISSING, True),
    "all records deleted": ("delete from ledger_records", "", FindingKind.MISSING, True),
    "record changed": ("update ledger_records set content = :content where number = 2", "", FindingKind.CHANGED, True),
    "record moved to another subject": (
        "update ledger_records set subject = :id where number = 2", "session", FindingKind.CHANGED, True,
    ),
    "newest ledger entry deleted": (
        "delete from ledger where number = (select max(number) from ledger)", "", FindingKind.TRUNCATED, True,
    ),
    "audit log deleted": ("delete from audit_log", "", FindingKind.MISSING, True),
}  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
async def test_record_changed_in_the_database_is_found(records: Records, tmp_path: Path, name: str) -> None:
    statement, about, what, is_exported = ATTACKS[name]
    evidence = await Evidence.make(records)
    subjects = {
        "audit": evidence.entries[1],
        "decided": evidence.decided.id,
        "standing": evidence.standing.id,
        "session": evidence.session,
    }
    values: dict[str, object] = {"content": b'{"kind":"audit"}'} if ":content" in statement else {}
    await evidence.sql(statement, subjects.get(about), **values)
    report = await evidence.online()
    assert what in kinds(report), report.findings
    if about and about != "session":
        assert str(subjects[about]) in " ".join(one.message for one in report.findings)
    if is_exported:
        assert kinds(await evidence.offline(tmp_path)), "the export shows nothing"


async def test_audit_entry_added_in_the_database_is_found(records: Records) -> None:
    evidence = await Evidence.make(records)
    copied = select(audit_log).where(audit_log.c.id == evidence.entries[0])
    async with records.world.database.statement() as connection:
        row = dict((await connection.execute(copied)).mappings().one())
    added = uuid4()
    async with records.world.database.statement() as connection:
        await connection.execute(insert(audit_log).values(row | {"id": added}))
    report = await evidence.online()
    assert kinds(report) == {FindingKind.FOREIGN}
    assert added.hex in report.findings[0].message.replace("-", "")


async def test_record_added_in_the_database_is_found(records: Records) -> None:
    evidence = await Evidence.make(records)
    values = {"org_id": records.world.org_id, "number": 5_000, "subject": uuid4(), "content": b"{}"}
    async with records.world.database.statement() as connection:
        await connection.execute(insert(ledger_records).values(values))
    assert kinds(await evidence.online()) == {FindingKind.FOREIGN}


async def test_audit_entry_deleted_after_the_last_checkpoint_is_found(records: Records) -> None:
    """The head of the ledger has its number, and the next entry leaves the gap visible."""
    evidence = await Evidence.make(records)
    newest = await audited(records, 7)
    await evidence.services.ledger.write()
    await evidence.sql("delete from audit_log where id = :id", newest)
    assert FindingKind.MISSING in kinds(await evidence.online())
    number = (await evidence.services.ledger.head(records.world.org_id)).number
    await evidence.sql("delete from ledger where number = :number", number=number)
    await evidence.sql("delete from ledger_records where number = 10")
    assert FindingKind.TRUNCATED in kinds(await evidence.online())
    await audited(records, 8)
    await evidence.services.checkpoints.make(records.user)
    report = await evidence.online()
    assert FindingKind.MISSING in kinds(report)
    assert number in {one.entry for one in report.findings}


async def test_audit_entry_deleted_before_it_is_sealed_is_found(records: Records) -> None:
    evidence = await Evidence.make(records)
    newest = await audited(records, 7)
    await evidence.sql("delete from audit_log where id = :id", newest)
    await evidence.services.checkpoints.make(records.user)
    [finding] = (await evidence.online()).findings
    assert finding.what is FindingKind.MISSING
    assert str(newest) in finding.message


@pytest.mark.parametrize("change", ["status = 'APPROVED'", "input = 'select 1'"])
async def test_decided_review_that_is_changed_and_sealed_again_is_found(records: Records, change: str) -> None:
    """An attacker who can write the queue can have a review sealed again, but not with a forbidden change."""
    evidence = await Evidence.make(records)
    await evidence.sql(f"update reviews set {change} where id = :id", evidence.decided.id)
    session = evidence.decided.session_id
    values = {"org_id": records.world.org_id, "kind": "review", "subject": evidence.decided.id, "session_id": session}
    async with records.world.database.statement() as connection:
        await connection.execute(insert(record_queue).values(**values, at=records.world.clock()))
    await evidence.services.checkpoints.make(records.user)
    report = await evidence.online()
    assert FindingKind.CHANGED in kinds(report)
    assert str(evidence.decided.id) in report.findings[0].message


@pytest.mark.parametrize(
    "events",
    [
        (),
        (ReviewEvent.REVOKED,),
        (ReviewEvent.EXPIRED,),
        (ReviewEvent.WITHDRAWN,),
    ],
)
async def test_review_stays_proven_after_revocation_expiry_or_withdrawal(
    records: Records, tmp_path: Path, events: Sequence[ReviewEvent]
) -> None:
    evidence = await Evidence.make(records)
    world = records.world
    for event in events:
        world.clock.forward(days=1)
        assert await world.stores.reviews.move(evidence.standing.id, event, world.clock()) is not None
        between = await evidence.online()
        assert between.is_good, between.findings
        await evidence.services.ledger.write()
    await evidence.services.checkpoints.make(records.user)
    for report in (await evidence.online(), await evidence.offline(tmp_path)):
        assert report.is_good, report.findings


async def test_review_deleted_by_retention_is_not_a_finding(records: Records, tmp_path: Path) -> None:
    evidence = await Evidence.make(records)
    records.world.clock.forward(days=KEPT.days + 1)
    await records.world.stores.reviews.prune(records.world.clock() - KEPT)
    assert await records.world.stores.reviews.get(evidence.decided.id) is None
    for report in (await evidence.online(), await evidence.offline(tmp_path)):
        assert report.is_good, report.findings


@pytest.mark.parametrize("what", list(Purged))
async def test_review_of_a_purged_session_is_not_a_finding(records: Records, tmp_path: Path, what: Purged) -> None:
    evidence = await Evidence.make(records)
    session = evidence.decided.session_id
    assert session is not None
    ended = SessionEnd(records.world.clock(), EndReason.CLIENT_CLOSED, exit_code=0)
    assert await records.world.stores.sessions.end(session, ended)
    await evidence.services.ledger.write()
    await evidence.services.ledger.note(
        records.world.org_id, EntryKind.PURGED, session, what=what.value, reason="retention"
    )
    if what is Purged.SESSION:
        await evidence.sql("delete from sessions where id = :id", session)
    else:
        await evidence.sql("update reviews set input = '', estimate = null where id = :id", evidence.decided.id)
    await evidence.services.checkpoints.make(records.user)
    for report in (await evidence.online(), await evidence.offline(tmp_path)):
        assert report.is_good, report.findings


async def test_export_of_a_time_range_has_the_records_of_that_range(records: Records, tmp_path: Path) -> None:
    services, clock = records.services(), records.world.clock
    moments = []
    for number in range(4):
        clock.forward(hours=1)
        moments.append(clock.now)
        await audited(records, number)
        await records.recorded(0)
        await services.checkpoints.make(records.user)
    half = timedelta(minutes=30)
    for since, until, count in (
        (moments[1] - half, moments[2] + half, 2),
        (moments[3] - half, None, 1),
        (None, moments[0] + half, 1),
        (moments[3] + half, None, 0),
    ):
        report = await proven(records, services, await exported(records, services, tmp_path, since, until))
        assert report.is_good, report.findings
        assert report.records_proven == count


async def test_burst_of_audit_entries_is_sealed_in_few_ledger_entries(records: Records) -> None:
    services = records.services()
    for number in range(60):
        await audited(records, number)
    assert await services.ledger.write(batch=25) == 3
    assert (await services.ledger.head(records.world.org_id)).records == 60
    assert await services.ledger.write() == 0
    report = await services.verifier.verify(records.world.org_id)
    assert kinds(report) == {FindingKind.UNPROVEN}
    await services.checkpoints.make(records.user)
    assert (await services.verifier.verify(records.world.org_id)).records_proven == 60
