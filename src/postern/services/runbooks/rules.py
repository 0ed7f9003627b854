"""Runbook rules: what admins write about who may run which runbooks where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from postern.domain.connection import check_new_name
from postern.domain.lists import Listed, Page
from postern.domain.principal import Principal
from postern.domain.runbook import RunbookPattern, RunbookRule, changed_at, repository_name
from postern.errors import Invalid, NotFound
from postern.services.identity.users import require_admin, require_reader
from postern.services.rule_fields import check_description, check_room, checked_connections, printable_groups
from postern.services.server.trail import changed
from postern.store.ports.common import Clock, Signals, Topic
from postern.store.ports.runbooks import NamedRunbookRule, RunbookRuleStore
from postern.store.ports.targets import ConnectionStore

__all__ = ["NamedRunbookRule", "RunbookRuleFields", "RunbookRules"]

MAX_PATTERNS, MAX_REPOSITORY, MAX_PATH = 100, 512, 1024
_DEED = "change runbook rules"


@dataclass(frozen=True, slots=True)
class RunbookRuleFields:
    """What a writer sets. `runbooks` are of a repository's name or address; `connections` are names or ids, none for
    every connection; no `groups` for everybody. None leaves as it is, where there is something already."""

    name: str | None = None
    description: str | None = None
    runbooks: tuple[RunbookPattern, ...] | None = None
    connections: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None


class RunbookRules:
    def __init__(self, store: RunbookRuleStore, connections: ConnectionStore, signals: Signals, now: Clock) -> None:
        self._store = store
        self._connections = connections
        self._signals = signals
        self._now = now

    async def find(self, principal: Principal, page: Page) -> Listed[NamedRunbookRule]:
        """By name. Raises Denied."""
        require_reader(principal, "runbook rules")
        return await self._store.find(principal.org_id, page)

    async def get(self, principal: Principal, name_or_id: str) -> NamedRunbookRule:
        """Raises Denied, NotFound."""
        require_reader(principal, "runbook rules")
        return await self._existing(principal, name_or_id)

    async def create(self, principal: Principal, given: RunbookRuleFields) -> NamedRunbookRule:
        """From the first rule on, what no rule gives is kept from all but administrators, at once. Raises Denied,
        Invalid, Conflict."""
        require_admin(principal, _DEED)
        check_room((await self._store.find(principal.org_id, Page(limit=1))).total, "runbook rules")
        at = self._now()
        empty = RunbookRule(uuid4(), principal.org_id, "", created_at=at)
        rule = replace(await self._merged(empty, given), updated_at=at)
        await self._store.add(rule)
        changed(None, rule)
        return await self._told(principal, rule)

    async def update(self, principal: Principal, name_or_id: str, given: RunbookRuleFields) -> NamedRunbookRule:
        """Raises Denied, NotFound, Invalid, Conflict."""
        require_admin(principal, _DEED)
        current = (await self._existing(principal, name_or_id)).rule
        rule = replace(await self._merged(current, given), updated_at=changed_at(self._now(), current))
        await self._store.update(rule, current)
        changed(current, rule)
        return await self._told(principal, rule)

    async def remove(self, principal: Principal, name_or_id: str) -> None:
        """Without the last rule everybody may run every runbook on what they may use. Raises Denied, NotFound."""
        require_admin(principal, _DEED)
        current = (await self._existing(principal, name_or_id)).rule
        await self._store.remove(current.id)
        changed(current, None)
        await self._tell(principal)

    async def _existing(self, principal: Principal, name_or_id: str) -> NamedRunbookRule:
        found = await self._store.get(principal.org_id, name_or_id)
        if found is None:
            raise NotFound(f"there is no runbook rule {name_or_id!r}")
        return found

    async def _merged(self, current: RunbookRule, given: RunbookRuleFields) -> RunbookRule:
        if given.name is not None:
            check_new_name(given.name)
        merged = replace(
            current,
            name=current.name if given.name is None else given.name,
            description=current.description if given.description is None else given.description,
            runbooks=current.runbooks if given.runbooks is None else _patterns(given.runbooks),
            groups=current.groups if given.groups is None else frozenset(printable_groups(given.groups, "user_groups")),
        )
        if given.connections is not None:
            if current.nowhere and not given.connections:
                # An answer that is edited and sent back must not open what was closed.
                raise Invalid(
                    "connections: all that this rule listed were deleted, and none would stand for every connection; "
                    "list some, or delete the rule and create another",
                    field="connections",
                )
            ids = await checked_connections(
                self._connections, current.org_id, given.connections, "connections", tagged=False
            )
            merged = replace(merged, connection_ids=ids, nowhere=False)
        check_description(merged.description)
        if not merged.runbooks:
            raise Invalid(
                f"runbooks: must be 1 to {MAX_PATTERNS}; a repository without a name stands for all of its runbooks",
                field="runbooks",
            )
        return merged

    async def _told(self, principal: Principal, rule: RunbookRule) -> NamedRunbookRule:
        await self._tell(principal)
        return await self._existing(principal, str(rule.id))

    async def _tell(self, principal: Principal) -> None:
        await self._signals.publish(Topic.POLICY_CHANGED, org_id=str(principal.org_id))


def _patterns(given: Sequence[RunbookPattern]) -> tuple[RunbookPattern, ...]:
    if len(given) > MAX_PATTERNS:
        raise Invalid(f"runbooks: at most {MAX_PATTERNS}; name a folder of them", field="runbooks")
    return tuple(dict.fromkeys(RunbookPattern(_repository(one.repository), _beginning(one.name)) for one in given))


def _repository(given: str) -> str:
    """Its name, also of its address."""
    name = given.strip()
    if "://" in name or "@" in name.partition("/")[0]:
        try:
            name = repository_name(name)
        except ValueError:  # no address at all
            name = ""
    if not name or len(name) > MAX_REPOSITORY or not name.isprintable():
        raise Invalid(
            f"runbooks: repository: {given!r} is no host/owner/repository; `GET /runbooks` shows how each is called",
            field="runbooks",
        )
    return name


def _beginning(given: str) -> str:
    """What paths begin with: they are counted from the root of the repository, with no slash before."""
    name = given.removeprefix("/")
    if len(name) > MAX_PATH or not name.isprintable():
        raise Invalid(f"runbooks: name: must be printable, and at most {MAX_PATH} characters", field="runbooks")
    return name
