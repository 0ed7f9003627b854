"""The start of purges: the ledger and the audit log record them before anything is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from postern.domain.identity.principal import Principal
from postern.domain.lists import Page, Stretch
from postern.domain.sessions.ledger import EntryKind, Fact
from postern.domain.sessions.retention import MAX_REASON, Purge, PurgeScope, RetainedSession, check_text
from postern.domain.sessions.session import Session, SessionStatus
from postern.errors import Conflict, Denied
from postern.proof.proof_ledger import LedgerWriter
from postern.services.recordings.recording_ledger import Ledger
from postern.services.server.audit import Audit
from postern.services.server.audit_context import AuditContext, record_change
from postern.services.sessions import Sessions
from postern.store.ports.common_ports import Clock
from postern.store.ports.retention_ports import HoldStore, PurgeStore
from postern.store.ports.server_ports import AuditEntry

_TRIES = 20


class PurgeRegister:
    """Records purges that begin. Needs no key, since the process that carries them out has none."""

    def __init__(self, store: PurgeStore, ledger: Ledger, audit: Audit, now: Clock) -> None:
        self._store = store
        self._ledger = ledger
        self._audit = audit
        self._now = now

    async def begin(
        self, org_id: UUID, doomed: Sequence[tuple[RetainedSession, PurgeScope, str]], *, by: UUID | None = None
    ) -> list[Purge]:
        """Begin all of these purges (session, what, reason), or none.

        None when one of them cannot be purged any more, or another process wrote the ledger. `by` stands for a request,
        which has its own audit entry; without it one audit entry names all of them.
        """
        counts = await self._store.segments([retained_session.session_id for retained_session, _, _ in doomed])
        writer = LedgerWriter(org_id, await self._ledger.head(org_id))
        now = self._now()
        purges = []
        for session, what, reason in doomed:
            content: dict[str, Fact] = {"what": what.value, "reason": reason}
            content["segments"] = counts.get(session.session_id, 0)
            if by is not None:
                content["by"] = str(by)
            entry = writer.add(EntryKind.PURGED, now, session.session_id, **content)
            purges.append(Purge(session.session_id, org_id, what, reason, entry.number, now, 0, now, ""))
        audit = None if by is not None else self._entry(org_id, purges)
        return purges if await self._store.begin(purges, writer.entries, audit) else []

    def _entry(self, org_id: UUID, purges: Sequence[Purge]) -> AuditEntry:
        sessions = {what: [str(purge.session_id) for purge in purges if purge.what is what] for what in PurgeScope}
        after = {
            "recordings": sessions[PurgeScope.RECORDING],
            "sessions": sessions[PurgeScope.SESSION],
            "reasons": sorted({purge.reason for purge in purges}),
            "ledger": [purges[0].entry, purges[-1].entry],
        }
        return self._audit.by_gateway(
            org_id,
            "retention",
            action="purge",
            resource_type="sessions",
            resource=f"{len(purges)} sessions",
            audit_context=AuditContext(None, after),
        )


class Purges:
    """Purges by administrators. The purger (`purger.py`) carries them out, and they cannot be undone."""

    def __init__(self, store: PurgeStore, holds: HoldStore, sessions: Sessions, register: PurgeRegister) -> None:
        self._store = store
        self._holds = holds
        self._sessions = sessions
        self._register = register

    async def find(self, principal: Principal, page: Page) -> Stretch[Purge]:
        """Return purges that have begun and are not done, oldest first. Raises Denied."""
        if not principal.sees_all:
            raise Denied("only administrators and auditors can see pending purges")
        return await self._store.find(principal.org_id, page)

    async def purge(self, principal: Principal, session_id: UUID | str, what: PurgeScope, reason: str) -> Purge:
        """Purge manually, without waiting for a retention.

        Raises NotFound, Denied, Invalid, and Conflict while it runs, while its recording is not stored, when it is held
        and when there is nothing to purge.
        """
        session = await self._sessions.get(principal, session_id)
        if not principal.is_admin:
            raise Denied("only administrators can purge")
        check_text(reason, "reason", MAX_REASON)
        for _ in range(_TRIES):
            retained_session = await self._purgeable(session, what)
            for begun in await self._register.begin(
                principal.org_id, [(retained_session, what, reason)], by=principal.id
            ):
                before = {"session": session.id, "user": session.user, "connection": session.connection}
                record_change(before, {"session": session.id, "what": what, "reason": reason, "entry": begun.entry})
                return begun
        raise Conflict("this session is being changed by another process; try again")

    async def _purgeable(self, session: Session, what: PurgeScope) -> RetainedSession:
        """Return the session if it can be purged. Raises Conflict with the reason."""
        if session.status is not SessionStatus.DONE:
            raise Conflict("this session has not ended; kill it first")
        holds = await self._holds.of(session.id)
        if holds:
            names = ", ".join(repr(hold.name) for hold in holds)
            raise Conflict(f"this session has the legal hold {names}; it can be purged after the last hold is removed")
        retained_session = await self._store.find_retained(session.org_id, session.id)
        if retained_session is None:
            raise Conflict(
                "this session is not closed in the ledger yet; that happens once its recording is stored, or a "
                "week after its end if it has no recording. Try again then"
            )
        if what is PurgeScope.RECORDING and not retained_session.has_recording:
            raise Conflict(
                "this session has no recording, or its recording was purged; to purge the session itself, use `session`"
            )
        if session.id not in await self._store.purgeable([session.id]):
            raise Conflict(
                "this session cannot be purged now: a purge is in progress, reports have not counted it yet, or the "
                "ledger has a legal hold on it. Try again in a minute; if it still fails, run "
                "`postern recordings verify`"
            )
        return retained_session
