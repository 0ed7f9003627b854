"""Guard rails: rules that admins write, checked when they are saved so that each can be enforced."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

from postern.domain.connection import TEXTUAL, Connection
from postern.domain.guardrail import MAX_NAME, GuardRail, Rule, check_rules, unenforceable
from postern.domain.lists import Listed, Page
from postern.domain.principal import Principal
from postern.domain.rule_filter import ALL_RULES, RuleFilter
from postern.errors import Conflict, Denied, Invalid, NotFound
from postern.services.identity.users import require_admin
from postern.services.server.trail import changed
from postern.store.ports.common import Clock, Signals, Topic
from postern.store.ports.targets import ConnectionStore, GuardRailStore

MAX_DESCRIPTION = 10_000
_NAMED = 5  # connections that an error names

ADVISORY = (
    "input rules are advisory on {connections}: what a shell or a program makes of a line cannot be known, and at a "
    "terminal its keys have arrived before it is judged"
)
ADVISORY_OUTPUT = (
    "output rules on {connections} judge the text that a terminal shows: what a program encodes (base64, compression) "
    "passes them"
)


@dataclass(frozen=True, slots=True)
class GuardRailFields:
    """What a writer sets (spec 2.5). None for `connection_ids` keeps what is there, since connections
    are associated from their side, too."""

    name: str
    description: str = ""
    input: tuple[Rule, ...] = ()
    output: tuple[Rule, ...] = ()
    connection_ids: tuple[str, ...] | None = None


class GuardRails:
    """`compiles(pattern)` answers None, or why the rules' engine does not take it; `enforceable` names the protocols
    on which rules take effect, `parsed` those that have a parser."""

    def __init__(
        self,
        store: GuardRailStore,
        connections: ConnectionStore,
        signals: Signals,
        now: Clock,
        *,
        compiles: Callable[[str], str | None],
        enforceable: frozenset[str],
        parsed: frozenset[str] = frozenset(),
    ) -> None:
        self._parsed = parsed
        self._store = store
        self._connections = connections
        self._signals = signals
        self._now = now
        self._compiles = compiles
        self._enforceable = enforceable

    async def find(self, principal: Principal, page: Page, where: RuleFilter = ALL_RULES) -> Listed[GuardRail]:
        """By name. Raises Denied."""
        _require_reader(principal)
        return await self._store.find(principal.org_id, page, where)

    async def get(self, principal: Principal, guardrail_id: str) -> GuardRail:
        """Raises Denied, NotFound."""
        _require_reader(principal)
        return await self._existing(principal, guardrail_id)

    async def create(self, principal: Principal, given: GuardRailFields) -> GuardRail:
        """Raises Denied, Invalid, Conflict."""
        require_admin(principal, "change guard rails")
        at = self._now()
        empty = GuardRail(uuid4(), principal.org_id, given.name, created_at=at)
        guardrail = replace(await self._merged(empty, given), updated_at=at)
        await self._store.add(guardrail)
        changed(None, guardrail)
        await self._tell(guardrail.connection_ids)
        return guardrail

    async def replace(self, principal: Principal, guardrail_id: str, given: GuardRailFields) -> GuardRail:
        """Raises Denied, NotFound, Invalid, Conflict."""
        require_admin(principal, "change guard rails")
        current = await self._existing(principal, guardrail_id)
        guardrail = replace(await self._merged(current, given), updated_at=self._now())
        await self._store.update(guardrail)
        changed(current, guardrail)
        await self._tell((*current.connection_ids, *guardrail.connection_ids))
        return guardrail

    async def remove(self, principal: Principal, guardrail_id: str, *, unused: bool = False) -> None:
        """With `unused` only one that applies to no connection. Raises Denied, NotFound, Conflict."""
        require_admin(principal, "change guard rails")
        current = await self._existing(principal, guardrail_id)
        if unused:
            require_unused(f"guard rail {current.name!r}", await self._connections_of(current))
        await self._store.remove(current.id)
        changed(current, None)
        await self._tell(current.connection_ids)

    async def _existing(self, principal: Principal, guardrail_id: str) -> GuardRail:
        key = _uuid(guardrail_id)
        found = await self._store.get(principal.org_id, key) if key is not None else None
        if found is None:
            raise NotFound(f"there is no guard rail {guardrail_id!r}")
        return found

    async def advice(self, guardrail: GuardRail) -> list[str]:
        """What whoever writes it should know of where it applies."""
        shells = [one.name for one in await self._connections_of(guardrail) if one.protocol in TEXTUAL]
        told = ((guardrail.input, ADVISORY), (guardrail.output, ADVISORY_OUTPUT))
        return [text.format(connections=", ".join(shells)) for rules, text in told if shells and rules]

    async def _connections_of(self, guardrail: GuardRail) -> list[Connection]:
        if not guardrail.connection_ids:
            return []
        found = await self._connections.by_ids(guardrail.org_id, guardrail.connection_ids)
        return sorted(found, key=lambda one: one.name)

    async def _merged(self, current: GuardRail, given: GuardRailFields) -> GuardRail:
        check_rule_name(given.name)
        if len(given.description) > MAX_DESCRIPTION:
            raise Invalid(f"description: at most {MAX_DESCRIPTION} characters", field="description")
        check_rules(given.input, "input", self._compiles)
        check_rules(given.output, "output", self._compiles)
        ids = current.connection_ids
        if given.connection_ids is not None:
            ids = await self._checked_connections(current.org_id, given.connection_ids)
        merged = replace(
            current,
            name=given.name,
            description=given.description,
            input=given.input,
            output=given.output,
            connection_ids=ids,
        )
        await self._check_holds(merged)
        return merged

    async def _check_holds(self, guardrail: GuardRail) -> None:
        """Each of its rules must be able to hold on each of its connections."""
        if not (guardrail.connection_ids and (guardrail.judges_statements or guardrail.counts_rows)):
            return
        for connection in await self._connections.by_ids(guardrail.org_id, guardrail.connection_ids):
            reason = unenforceable(guardrail, connection.protocol, self._parsed)
            if reason is not None:
                raise Invalid(f"connection_ids: connection {connection.name!r}: {reason}", field="connection_ids")

    async def _checked_connections(self, org_id: UUID, given: tuple[str, ...]) -> tuple[UUID, ...]:
        keys = [_uuid(text) for text in given]
        ids = sorted({key for key in keys if key is not None})
        found = {one.id: one for one in await self._connections.by_ids(org_id, ids)} if ids else {}
        for text, key in zip(given, keys, strict=True):
            if key is None or key not in found:
                raise Invalid(f"connection_ids: there is no connection with id {text!r}", field="connection_ids")
            if found[key].protocol not in self._enforceable:
                raise Invalid(
                    f"connection_ids: rules cannot be enforced yet on subtype {found[key].subtype!r} "
                    f"of connection {found[key].name!r}",
                    field="connection_ids",
                )
        return tuple(ids)

    async def _tell(self, connection_ids: Iterable[UUID]) -> None:
        for connection_id in set(connection_ids):
            await self._signals.publish(Topic.POLICY_CHANGED, connection_id=str(connection_id))


def check_rule_name(name: str) -> None:
    """Raises Invalid."""
    if not 1 <= len(name) <= MAX_NAME or not name.isprintable() or name != name.strip():
        raise Invalid(
            f"name: must have 1 to {MAX_NAME} characters, all printable, and no blank at its ends", field="name"
        )


def require_unused(what: str, connections: Sequence[Connection]) -> None:
    """Raises Conflict."""
    if connections:
        names = ", ".join(one.name for one in connections[:_NAMED])
        more = f" and {len(connections) - _NAMED} more" if len(connections) > _NAMED else ""
        raise Conflict(
            f"{what} applies to {names}{more}: take it off there first, or delete it with force=true; what it kept "
            "back is then let through"
        )


def _require_reader(principal: Principal) -> None:
    if not principal.sees_all:
        raise Denied("only administrators and auditors may read guard rails")


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
