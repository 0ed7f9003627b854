"""An organisation's tracker: its address and credentials, and what happens to sessions while it is down."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from postern.domain.identity.principal import Principal
from postern.domain.issues.issue import Assets, TrackerKind, TrackerSettings, WhenDown
from postern.domain.lists import Page
from postern.domain.secret import Secret
from postern.errors import Conflict, Denied, Invalid, NotFound
from postern.services.identity.users import require_admin
from postern.services.issues.templates import IssueTemplates
from postern.services.issues.tracker import Tracker, Trackers
from postern.services.server.audit_context import record_change
from postern.services.server.server_addresses import checked_url
from postern.services.server.setting_cache import SettingCache
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.server_ports import SettingStore

SETTING = "tracker"
MAX_USER, MAX_TOKEN, MAX_QUERY = 255, 4_096, 255  # characters
_DEED = "change the tracker"


@dataclass(frozen=True, slots=True)
class TrackerFields:
    """The fields of a request. None for `token` keeps the stored one, as long as it would go to the same place."""

    kind: TrackerKind
    url: str
    user: str = ""
    token: Secret | None = None
    authority: str = ""
    enabled: bool = True
    when_down: WhenDown = WhenDown.REFUSE


class IssueTrackers:
    """Manages trackers. `trackers` creates the client of one; without it this process contacts none."""

    def __init__(
        self,
        store: SettingStore,
        templates: IssueTemplates,
        signals: Signals,
        now: Clock,
        trackers: Trackers | None = None,
    ) -> None:
        self._store = store
        self._templates = templates
        self._signals = signals
        self._now = now
        self._trackers = trackers
        self._kept = SettingCache[TrackerSettings | None](signals, SETTING)

    async def of(self, org_id: UUID) -> TrackerSettings | None:
        """Return the settings for issue delivery, also where it is disabled. No statement while cached."""
        return await self._kept.get(org_id, self._read)

    async def get(self, principal: Principal) -> TrackerSettings:
        """Return the settings, for all users; user and authority for admins and auditors, never the token. Raises
        NotFound."""
        settings = await self._existing(principal)
        tracker_settings = replace(settings, token=Secret(""))
        return tracker_settings if principal.sees_all else replace(tracker_settings, user="", authority="")

    async def create(self, principal: Principal, tracker_fields: TrackerFields) -> TrackerSettings:
        """Create the settings. Raises Denied, Invalid, Conflict when there are some."""
        require_admin(principal, _DEED)
        if not tracker_fields.token:
            raise Invalid("token: is required", field="token")
        settings = await self._validate(tracker_fields, tracker_fields.token)
        if not await self._store.add(principal.org_id, SETTING, _to_json(settings), self._now()):
            raise Conflict("a tracker is already configured; change it, or remove it first")
        await self._announce(principal, None, settings)
        return replace(settings, token=Secret(""))

    async def replace(self, principal: Principal, tracker_fields: TrackerFields) -> TrackerSettings:
        """Replace the settings. Raises Denied, Invalid, NotFound, Conflict.

        A token is never sent to a different place than it was given for, and a token that was changed concurrently is
        not restored.
        """
        require_admin(principal, _DEED)
        stored = await self._load_stored(principal)
        current = _settings_of(stored)
        if not tracker_fields.token and _place(tracker_fields) != _place(current):
            raise Invalid(
                "token: the address or authority has changed, and the token would be sent there; give the token again",
                field="token",
            )
        settings = await self._validate(tracker_fields, tracker_fields.token or current.token)
        if replace(settings, updated_at=current.updated_at) == current:
            return replace(current, token=Secret(""))
        if not await self._store.change(principal.org_id, SETTING, stored, _to_json(settings), self._now()):
            raise Conflict("the tracker was changed or removed meanwhile; read it again, and retry")
        await self._announce(principal, current, settings)
        return replace(settings, token=Secret(""))

    async def remove(self, principal: Principal) -> None:
        """Remove the settings with the token. Templates and issues stay, and sessions open no more issues. Raises
        Denied, NotFound."""
        require_admin(principal, _DEED)
        current = await self._existing(principal)
        await self._store.remove(principal.org_id, SETTING)
        await self._announce(principal, current, None)

    async def test(self, principal: Principal, project_key: str) -> str:
        """Return the account that the tracker knows us as; with a project also check that we can see it.

        Raises Denied, NotFound, Unavailable; Invalid for what the tracker rejects.
        """
        require_admin(principal, "test the tracker")
        if len(project_key) > MAX_QUERY:
            raise Invalid(f"project_key: at most {MAX_QUERY} characters", field="project_key")
        async with self._asking(principal) as tracker:
            answer = await tracker.check(project_key)
        record_change(None, {"answer": answer, "project": project_key})
        return answer

    async def objects(self, principal: Principal, object_type: str, query: str, page: Page) -> Assets:
        """Return names for a prompt of a template. Users who do not see all get those of types that a template prompts
        for.

        Raises Denied, NotFound, Unavailable; Invalid for what the tracker rejects.
        """
        if len(object_type) > MAX_QUERY or len(query) > MAX_QUERY:
            raise Invalid(f"object_type, query: at most {MAX_QUERY} characters", field="query")
        if not principal.sees_all and not await self._templates.ask_for(principal, object_type):
            raise Denied(f"no connection that you can see asks for an object of type {object_type!r}")
        async with self._asking(principal) as tracker:
            return await tracker.objects(object_type, query, page)

    async def _existing(self, principal: Principal) -> TrackerSettings:
        return _settings_of(await self._load_stored(principal))

    async def _load_stored(self, principal: Principal) -> Mapping[str, Any]:
        settings = await self._store.get(principal.org_id, SETTING)
        if settings is None:
            raise NotFound("no tracker is configured; ask an administrator to add one (postern admin tracker set)")
        return settings

    async def _read(self, org_id: UUID) -> TrackerSettings | None:
        stored = await self._store.get(org_id, SETTING)
        return None if stored is None else _settings_of(stored)

    async def _validate(self, tracker_fields: TrackerFields, token: Secret) -> TrackerSettings:
        """Return checked settings, which the tracker's adapter accepts, too."""
        checked_url(tracker_fields.url, "url", "tracker")
        for field, text, most in (("user", tracker_fields.user, MAX_USER), ("token", token.reveal(), MAX_TOKEN)):
            if len(text) > most or not text.isprintable():
                raise Invalid(f"{field}: at most {most} characters, all printable", field=field)
        settings = TrackerSettings(
            kind=tracker_fields.kind,
            url=tracker_fields.url,
            user=tracker_fields.user,
            token=token,
            authority=tracker_fields.authority,
            enabled=tracker_fields.enabled,
            when_down=tracker_fields.when_down,
            updated_at=self._now(),
        )
        if self._trackers is not None:
            await self._trackers(settings).close()
        return settings

    @asynccontextmanager
    async def _asking(self, principal: Principal) -> AsyncIterator[Tracker]:
        """Yield the client. What the tracker denies becomes Invalid, since the caller lacks no right here."""
        settings = await self._existing(principal)
        if self._trackers is None:
            raise Invalid("this process cannot use trackers; ask the operator of the gateway")
        tracker = self._trackers(settings)
        try:
            yield tracker
        except (Denied, NotFound) as problem:
            raise Invalid(problem.message) from None
        finally:
            await tracker.close()

    async def _announce(
        self, principal: Principal, before: TrackerSettings | None, after: TrackerSettings | None
    ) -> None:
        self._kept.forget()
        record_change(_audit_fields(before), _audit_fields(after))
        await self._signals.publish(Topic.SETTINGS_CHANGED, name=SETTING, org_id=str(principal.org_id))


def _place(where: TrackerFields | TrackerSettings) -> tuple[TrackerKind, str, str]:
    """Return the receiver of the token: a different authority certifies a different server of that name."""
    return where.kind, where.url, where.authority


def _settings_of(stored: Mapping[str, Any]) -> TrackerSettings:
    typed = {
        "kind": TrackerKind(stored["kind"]),
        "when_down": WhenDown(stored["when_down"]),
        "token": Secret(stored["token"]),
        "updated_at": datetime.fromisoformat(stored["updated_at"]),
    }
    return TrackerSettings(**{**stored, **typed})


def _to_json(settings: TrackerSettings) -> dict[str, Any]:
    """Return the settings as JSON; the store seals it."""
    assert settings.updated_at is not None
    typed = {"token": settings.token.reveal(), "updated_at": settings.updated_at.isoformat()}
    return {spec.name: getattr(settings, spec.name) for spec in fields(settings)} | typed


def _audit_fields(settings: TrackerSettings | None) -> dict[str, Any] | None:
    """Return the settings for the audit log."""
    return None if settings is None else {**_to_json(settings), "token": "***"}
