"""Retention settings of recordings and sessions: for the organisation and for connections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from postern.domain.identity.principal import Principal
from postern.domain.sessions.retention import (
    FOR_EVER,
    GRACE,
    WHOLE_ORGANISATION,
    Preview,
    Retention,
    RetentionSetting,
    retentions_at,
)
from postern.errors import Denied, NotFound
from postern.services.server.audit_context import record_change
from postern.store.ports.common_ports import Clock
from postern.store.ports.retention_ports import RetentionStore
from postern.store.ports.target_ports import ConnectionStore, SecretUse


@dataclass(frozen=True, slots=True)
class RetentionView:
    """A setting and what is in force now. `effective_at` is None when no change is pending."""

    setting: RetentionSetting
    in_force: Retention
    effective_at: datetime | None


class RetentionRules:
    def __init__(self, store: RetentionStore, connections: ConnectionStore, now: Clock) -> None:
        self._store = store
        self._connections = connections
        self._now = now

    async def organisation(self, principal: Principal) -> RetentionView:
        """Return the organisation's setting. Raises Denied."""
        require_reader(principal)
        org_id = principal.org_id
        settings = await self._store.of(org_id)
        return self._view(settings, _setting(settings, org_id, WHOLE_ORGANISATION, ""))

    async def connections(self, principal: Principal) -> list[RetentionView]:
        """Return the settings of connections that have one, or had one until recently, by name. Raises Denied."""
        require_reader(principal)
        settings, now = await self._store.of(principal.org_id), self._now()
        shown_settings = [setting for setting in settings if setting.wanted is not None or setting.waits(now)]
        return [
            self._view(settings, setting) for setting in shown_settings if setting.connection_id != WHOLE_ORGANISATION
        ]

    async def connection(self, principal: Principal, name_or_id: str) -> RetentionView:
        """Return the setting of a connection, also where the organisation's applies. Raises Denied, NotFound."""
        require_reader(principal)
        settings = await self._store.of(principal.org_id)
        setting = await self._find_setting(principal.org_id, settings, name_or_id)
        return self._view(settings, setting)

    async def set_organisation(self, principal: Principal, retention: Retention) -> RetentionView:
        """Set the organisation's retention. Raises Denied, Invalid."""
        _require_admin(principal)
        retention.check()
        settings = await self._store.of(principal.org_id)
        return await self._set(settings, _setting(settings, principal.org_id, WHOLE_ORGANISATION, ""), retention)

    async def set_connection(self, principal: Principal, name_or_id: str, retention: Retention | None) -> RetentionView:
        """Set a connection's retention; None: the organisation's applies. Raises Denied, NotFound, Invalid."""
        _require_admin(principal)
        if retention is not None:
            retention.check()
        settings = await self._store.of(principal.org_id)
        setting = await self._find_setting(principal.org_id, settings, name_or_id)
        return await self._set(settings, setting, retention)

    async def preview(self, principal: Principal, retention: Retention, name_or_id: str | None = None) -> Preview:
        """Return what this retention would purge now, without the grace period. Raises Denied, NotFound, Invalid."""
        require_reader(principal)
        retention.check()
        settings = await self._store.of(principal.org_id)
        if name_or_id is not None:
            setting = await self._find_setting(principal.org_id, settings, name_or_id)
            return await self._store.preview(
                principal.org_id, retention, self._now(), connection_id=setting.connection_id
            )
        exceptions = [
            other.connection_id for other in settings if other.connection_id != WHOLE_ORGANISATION and other.wanted
        ]
        return await self._store.preview(principal.org_id, retention, self._now(), without=exceptions)

    async def _set(
        self, settings: list[RetentionSetting], current: RetentionSetting, retention: Retention | None
    ) -> RetentionView:
        """Store the setting. A shorter retention takes effect after GRACE; an earlier pending change is dropped."""
        now = self._now()
        before = self._view(settings, current)
        organisation = retentions_at(settings, now).organisation
        new = organisation if retention is None else retention
        is_shorter = new.or_longer(before.in_force) != new
        setting = RetentionSetting(
            current.org_id,
            current.connection_id,
            current.connection,
            retention,
            before.in_force if is_shorter else FOR_EVER,
            now + GRACE if is_shorter else None,
        )
        await self._store.set(setting)
        other_settings = [other for other in settings if other.connection_id != setting.connection_id]
        after = self._view([*other_settings, setting], setting)
        record_change(_audit_fields(before), _audit_fields(after))
        return after

    async def _find_setting(
        self, org_id: UUID, settings: Sequence[RetentionSetting], name_or_id: str
    ) -> RetentionSetting:
        """Return the connection's setting, also of a removed connection that had one."""
        connection = await self._connections.get(org_id, name_or_id, SecretUse.NONE)
        if connection is not None:
            return _setting(settings, org_id, connection.id, connection.name)
        for setting in settings:
            if setting.connection_id != WHOLE_ORGANISATION and name_or_id in (
                setting.connection,
                str(setting.connection_id),
            ):
                return setting
        raise NotFound(f"there is no connection {name_or_id!r}")

    def _view(self, settings: list[RetentionSetting], setting: RetentionSetting) -> RetentionView:
        now = self._now()
        in_force, key = retentions_at(settings, now), setting.connection_id
        retention = in_force.organisation if key == WHOLE_ORGANISATION else in_force.of(key)
        return RetentionView(setting, retention, setting.effective_at if setting.waits(now) else None)


def _setting(settings: Sequence[RetentionSetting], org_id: UUID, key: UUID, name: str) -> RetentionSetting:
    """Return the existing setting, or an empty one."""
    setting = next((candidate for candidate in settings if candidate.connection_id == key), None)
    return setting or RetentionSetting(org_id, key, name, None)


def _audit_fields(view: RetentionView) -> dict[str, object]:
    """Return the setting for the audit log."""
    retention = view.setting.wanted
    return {
        "connection": view.setting.connection or None,
        "recording_days": retention.recording_days if retention else None,
        "session_days": retention.session_days if retention else None,
        "is_own": retention is not None,
        "in_force": view.in_force,
        "effective_at": view.effective_at,
    }


def require_reader(principal: Principal) -> None:
    """Raise Denied for all but administrators and auditors."""
    if not principal.sees_all:
        raise Denied("only administrators and auditors can see retention settings")


def _require_admin(principal: Principal) -> None:
    if not principal.is_admin:
        raise Denied("only administrators can change how long recordings and sessions are kept")
