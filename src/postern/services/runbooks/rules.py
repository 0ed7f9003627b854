"""Runbook rules: administrators define which users can run which runbooks on which connections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from postern.domain.runbook import RunbookPattern, RunbookRule, repository_name
from postern.errors import Invalid
from postern.services.named_resources import ResourceService
from postern.services.rules.rule_fields import printable_groups, with_connection_ids
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.named_resource_ports import NamedResourceStore
from postern.store.ports.target_ports import ConnectionStore

MAX_PATTERNS, MAX_REPOSITORY, MAX_PATH = 100, 512, 1024


class RunbookRules(ResourceService[RunbookRule]):
    """The first rule denies at once what no rule allows, except to administrators.

    Without any rule all users can run every runbook on the connections that they can use.
    """

    noun = "runbook rule"
    preserved_fields = frozenset({"nowhere"})  # a replacement must not open what was closed

    def __init__(
        self, store: NamedResourceStore[RunbookRule], connections: ConnectionStore, signals: Signals, now: Clock
    ) -> None:
        super().__init__(store, signals, now)
        self._connections = connections

    def blank(self, key: UUID, org_id: UUID) -> RunbookRule:
        return RunbookRule(key, org_id, "")

    async def resolve(self, current: RunbookRule, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        resolved = dict(fields)
        if "runbooks" in resolved:
            resolved["runbooks"] = _patterns(resolved["runbooks"])
        if "groups" in resolved:
            resolved["groups"] = frozenset(printable_groups(resolved["groups"], "user_groups"))
        if "connections" in resolved:
            if current.nowhere and not resolved["connections"]:
                # An answer that is edited and sent back must not open what was closed.
                raise Invalid(
                    "connections: all connections of this rule were deleted, and an empty list means every connection; "
                    "list some, or delete the rule and create another",
                    field="connections",
                )
            resolved["nowhere"] = False
        return await with_connection_ids(self._connections, current.org_id, resolved, "connections", tagged=False)

    async def check(self, resource: RunbookRule) -> None:
        if not resource.runbooks:
            raise Invalid(
                f"runbooks: must be 1 to {MAX_PATTERNS}; a repository without a runbook name means all of its runbooks",
                field="runbooks",
            )


def _patterns(patterns: Sequence[RunbookPattern]) -> tuple[RunbookPattern, ...]:
    if len(patterns) > MAX_PATTERNS:
        raise Invalid(f"runbooks: at most {MAX_PATTERNS}; use folders instead of single runbooks", field="runbooks")
    return tuple(
        dict.fromkeys(RunbookPattern(_repository(pattern.repository), _beginning(pattern.name)) for pattern in patterns)
    )


def _repository(text: str) -> str:
    """Return the repository's name, also for its address."""
    name = text.strip()
    if "://" in name or "@" in name.partition("/")[0]:
        try:
            name = repository_name(name)
        except ValueError:  # no address at all
            name = ""
    if not name or len(name) > MAX_REPOSITORY or not name.isprintable():
        raise Invalid(
            f"runbooks: repository: {text!r} is not host/owner/repository; `GET /runbooks` shows the names",
            field="runbooks",
        )
    return name


def _beginning(text: str) -> str:
    """Return the prefix of paths, from the root of the repository, without a leading slash."""
    name = text.removeprefix("/")
    if len(name) > MAX_PATH or not name.isprintable():
        raise Invalid(f"runbooks: name: must be printable, and at most {MAX_PATH} characters", field="runbooks")
    return name
