"""Legal holds: a held session cannot be purged until its last hold is removed."""

from __future__ import annotations

from uuid import UUID, uuid4

from postern.domain.identity.principal import Principal
from postern.domain.lists import Page, Stretch
from postern.domain.resource_names import check_resource_name
from postern.domain.sessions.ledger import EntryKind
from postern.domain.sessions.retention import MAX_REASON, LegalHold, check_text
from postern.errors import Denied, NotFound
from postern.services.recordings.recording_ledger import Ledger
from postern.services.server.audit_context import record_change
from postern.services.sessions import Sessions
from postern.store.ports.common_ports import Clock
from postern.store.ports.retention_ports import HoldStore


class Holds:
    """Administrators set and release holds; auditors see them. Other users do not: a hold must not warn the session's
    owner."""

    def __init__(self, store: HoldStore, sessions: Sessions, ledger: Ledger, now: Clock) -> None:
        self._store = store
        self._sessions = sessions
        self._ledger = ledger
        self._now = now

    async def find(self, principal: Principal, page: Page) -> Stretch[LegalHold]:
        """Return holds, newest first. Raises Denied."""
        _require_reader(principal)
        return await self._store.find(principal.org_id, page)

    async def of(self, principal: Principal, session_id: UUID | str) -> list[LegalHold]:
        """Return the holds of a session by name. Raises NotFound, Denied."""
        session = await self._sessions.get(principal, session_id)
        _require_reader(principal)
        return await self._store.of(session.id)

    async def set(self, principal: Principal, session_id: UUID | str, name: str, reason: str) -> LegalHold:
        """Set a hold, also on a running session. Raises NotFound, Denied, Invalid, and Conflict for a duplicate name or
        a session that is being purged."""
        session = await self._sessions.get(principal, session_id)
        _require_admin(principal)
        check_resource_name(name)
        check_text(reason, "reason", MAX_REASON)
        hold = LegalHold(
            uuid4(), principal.org_id, session.id, name, reason, principal.id, principal.email, self._now()
        )
        content = {"hold": str(hold.id), "by": str(principal.id)}
        await self._ledger.enter(
            hold.org_id, EntryKind.HELD, hold.session_id, content, lambda entry: self._store.add(hold, entry)
        )
        record_change(None, hold)
        return hold

    async def release(self, principal: Principal, session_id: UUID | str, name_or_id: str) -> None:
        """Release a hold. Raises NotFound, Denied."""
        session = await self._sessions.get(principal, session_id)
        _require_admin(principal)
        hold = next(
            (
                legal_hold
                for legal_hold in await self._store.of(session.id)
                if name_or_id in (legal_hold.name, str(legal_hold.id))
            ),
            None,
        )
        if hold is None:
            raise NotFound(f"session {session.id} has no legal hold {name_or_id!r}")
        content = {"hold": str(hold.id), "by": str(principal.id)}
        await self._ledger.enter(
            hold.org_id, EntryKind.RELEASED, hold.session_id, content, lambda entry: self._store.remove(hold, entry)
        )
        record_change(hold, None)


def _require_reader(principal: Principal) -> None:
    if not principal.sees_all:
        raise Denied("only administrators and auditors can see legal holds")


def _require_admin(principal: Principal) -> None:
    if not principal.is_admin:
        raise Denied("only administrators can add and remove legal holds")
