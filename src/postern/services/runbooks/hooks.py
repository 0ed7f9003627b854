"""Session hooks: the scripts for an organisation's sessions, and the results of their runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from postern.domain.hook import FILE_OF, MAX_OUTPUT, MAX_REASON, HookKind, HookRun, HookScript
from postern.domain.identity.principal import Principal
from postern.services.identity.users import require_reader
from postern.services.runbooks.repository_reading import SETTING
from postern.services.sessions import Sessions
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.runbook_ports import HookRunStore, RepositoryHooks, SnapshotStore

MAX_SHOWN = 100  # runs of one session
# Signals stay on one machine: workers of another one use switched-off hooks for up to this time.
_STAYS = 30  # seconds
_ORGANISATIONS_KEPT = 1_000
_MAX_KEPT = 64_000_000  # characters, of all organisations


@dataclass(frozen=True, slots=True)
class _Kept:
    """Cached hooks; `size` in characters."""

    scripts: Mapping[HookKind, Sequence[HookScript]]
    until: datetime
    size: int


class RunbookHooks:
    """Costs no statement while hooks are cached, and one for concurrent reads. `signals` report changes."""

    def __init__(
        self, snapshots: SnapshotStore, runs: HookRunStore, sessions: Sessions, signals: Signals, now: Clock
    ) -> None:
        self._snapshots = snapshots
        self._runs = runs
        self._sessions = sessions
        self._now = now
        self._kept: dict[UUID, _Kept] = {}
        self._reading: dict[UUID, asyncio.Task[_Kept]] = {}
        signals.subscribe(Topic.SETTINGS_CHANGED, self._on_changed)
        signals.subscribe(Topic.RESUMED, lambda _: self._forget())

    async def of(self, org_id: UUID, kind: HookKind) -> Sequence[HookScript]:
        """Return hooks by the names of their repositories; none where hooks are disabled. Raises Unavailable."""
        cached = self._kept.get(org_id)
        if cached is None or cached.until <= self._now():
            cached = await asyncio.shield(self._read(org_id))
        return cached.scripts[kind]

    def is_none(self, org_id: UUID, kind: HookKind) -> bool:
        """Return whether the cache shows that there are none, as for most organisations."""
        cached = self._kept.get(org_id)
        return cached is not None and cached.until > self._now() and not cached.scripts[kind]

    async def record_run(self, run: HookRun) -> None:
        """Store the result of a run, truncated; nothing where its session is gone. Raises Unavailable."""
        outcome = run.outcome
        reason = "".join(character if character.isprintable() else " " for character in outcome.reason[:MAX_REASON])
        output = outcome.output[:MAX_OUTPUT].encode("utf-8", "replace").decode()
        await self._runs.add(replace(run, outcome=replace(outcome, output=output, reason=reason)))

    async def find(self, principal: Principal, session_id: UUID | str) -> list[HookRun]:
        """Return the runs of one session, the earliest MAX_SHOWN of them, for administrators and auditors.

        The session's owner does not see a hook's output. Raises NotFound, Denied.
        """
        session = await self._sessions.get(principal, session_id)
        require_reader(principal, "results of session hooks")
        runs = await self._runs.of(session.org_id, session.id, MAX_SHOWN)
        if session.recording_purged_at is None:
            return runs
        return [replace(run, outcome=replace(run.outcome, output="")) for run in runs]  # also during the purge

    def _read(self, org_id: UUID) -> asyncio.Task[_Kept]:
        task = self._reading.get(org_id)
        if task is None:
            task = self._reading[org_id] = asyncio.create_task(self._read_scripts(org_id))
            task.add_done_callback(lambda ended: self._store_result(org_id, ended))
        return task

    async def _read_scripts(self, org_id: UUID) -> _Kept:
        at = self._now()
        repositories = await self._snapshots.hooks(org_id)
        stays = min((hooks.ttl for hooks in repositories), default=_STAYS)
        size = sum(len(text) for repository_hooks in repositories for text in repository_hooks.texts.values())
        scripts = {kind: _scripts(repositories, kind) for kind in HookKind}
        return _Kept(scripts, at + timedelta(seconds=min(stays, _STAYS)), size)

    def _store_result(self, org_id: UUID, task: asyncio.Task[_Kept]) -> None:
        """Cache the result, unless it was invalidated while it was read."""
        is_newest = self._reading.get(org_id) is task
        if is_newest:
            del self._reading[org_id]
        if task.cancelled() or task.exception() is not None or not is_newest:
            return
        result = task.result()
        self._kept.pop(org_id, None)
        if (
            len(self._kept) >= _ORGANISATIONS_KEPT
            or result.size + sum(cached.size for cached in self._kept.values()) > _MAX_KEPT
        ):
            self._kept.clear()
        self._kept[org_id] = result

    def _on_changed(self, payload: Mapping[str, str]) -> None:
        if payload.get("name") == SETTING:
            self._forget(payload.get("org_id"))

    def _forget(self, org_id: str | None = None) -> None:
        for by_org in (self._kept, self._reading):
            if org_id is None:
                by_org.clear()
            else:
                by_org.pop(UUID(org_id), None)


def _scripts(repositories: Sequence[RepositoryHooks], kind: HookKind) -> Sequence[HookScript]:
    name = FILE_OF[kind]
    return [
        HookScript(kind, hooks.repository, hooks.commit, hooks.texts[name])
        for hooks in repositories
        if name in hooks.texts
    ]
