"""Masking rules: what administrators want hidden in answers, checked when it is saved so that it can be enforced."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol
from uuid import UUID, uuid4

from postern.domain.connection import TEXTUAL
from postern.domain.lists import Listed, Page
from postern.domain.masking import (
    DEFAULT_THRESHOLD,
    CustomType,
    MaskingRule,
    Strategy,
    Strictness,
    TypeGroup,
    check_rule,
)
from postern.domain.masking_presets import PRESETS, MaskingPreset
from postern.domain.principal import Principal
from postern.domain.rule_filter import ALL_RULES, RuleFilter
from postern.domain.secret import Secret
from postern.errors import Denied, Invalid, NotFound
from postern.services.guardrails import check_rule_name, require_unused
from postern.services.identity.users import require_admin
from postern.services.server.trail import changed
from postern.store.ports.common import Clock, Signals, Topic
from postern.store.ports.targets import AccessStore, ConnectionStore, MaskingRuleStore

MAX_DESCRIPTION = 10_000
MAX_SAMPLES = 100
MAX_SAMPLE_LENGTH = 100_000  # characters of all samples together


@dataclass(frozen=True, slots=True)
class MaskingRuleFields:
    """What a writer sets. None for `connection_ids` keeps what is there, for `threshold` it is the usual one."""

    name: str
    description: str = ""
    groups: tuple[TypeGroup, ...] = ()
    custom_types: tuple[CustomType, ...] = ()
    columns: tuple[str, ...] = ()
    threshold: float | None = None
    strategy: Strategy = Strategy.REPLACE
    strictness: Strictness = Strictness.STRICT
    connection_ids: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Samples:
    """`columns` are names of the columns of `rows`, as a rule writes them: `email`, `users.email`. None is NULL."""

    texts: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str | None, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Masked:
    """The samples as they would be shown, and how many values of each type were masked."""

    texts: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    counts: dict[str, int] = field(default_factory=dict)


class Engine(Protocol):
    def __call__(self, rule: MaskingRule, key: Secret, samples: Samples) -> Masked:
        """What the rule makes of samples. Raises Denied where it would refuse them."""


class MaskingRules:
    """`compiles(pattern)` answers None, or why the engine does not take it; `engine` is what masks in sessions, too;
    `models` are the types that a language model finds here."""

    def __init__(
        self,
        store: MaskingRuleStore,
        access: AccessStore,
        connections: ConnectionStore,
        signals: Signals,
        now: Clock,
        *,
        compiles: Callable[[str], str | None],
        engine: Engine,
        enforceable: frozenset[str],
        models: frozenset[str] = frozenset(),
    ) -> None:
        self._models = models
        self._store = store
        self._access = access
        self._connections = connections
        self._signals = signals
        self._now = now
        self._compiles = compiles
        self._engine = engine
        self._enforceable = enforceable

    async def find(self, principal: Principal, page: Page, where: RuleFilter = ALL_RULES) -> Listed[MaskingRule]:
        """By name. Raises Denied."""
        _require_reader(principal)
        return await self._store.find(principal.org_id, page, where)

    def presets(self, principal: Principal) -> tuple[MaskingPreset, ...]:
        """Return the rules to begin with. Raises Denied."""
        _require_reader(principal)
        return PRESETS

    async def get(self, principal: Principal, rule_id: str) -> MaskingRule:
        """Raises Denied, NotFound."""
        _require_reader(principal)
        return await self._existing(principal, rule_id)

    async def create(self, principal: Principal, given: MaskingRuleFields) -> MaskingRule:
        """Raises Denied, Invalid, Conflict."""
        require_admin(principal, "change masking rules")
        at = self._now()
        empty = MaskingRule(uuid4(), principal.org_id, given.name, created_at=at)
        rule = replace(await self._merged(empty, given), updated_at=at)
        await self._store.add(rule)
        changed(None, rule)
        await self._tell(rule.connection_ids)
        return rule

    async def replace(self, principal: Principal, rule_id: str, given: MaskingRuleFields) -> MaskingRule:
        """Raises Denied, NotFound, Invalid, Conflict."""
        require_admin(principal, "change masking rules")
        current = await self._existing(principal, rule_id)
        rule = replace(await self._merged(current, given), updated_at=self._now())
        await self._store.update(rule)
        changed(current, rule)
        await self._tell((*current.connection_ids, *rule.connection_ids))
        return rule

    async def remove(self, principal: Principal, rule_id: str, *, unused: bool = False) -> None:
        """With `unused` only one that applies to no connection. Raises Denied, NotFound, Conflict."""
        require_admin(principal, "change masking rules")
        current = await self._existing(principal, rule_id)
        if unused and current.connection_ids:
            found = await self._connections.by_ids(current.org_id, current.connection_ids)
            require_unused(f"masking rule {current.name!r}", sorted(found, key=lambda one: one.name))
        await self._store.remove(current.id)
        changed(current, None)
        await self._tell(current.connection_ids)

    async def test(self, principal: Principal, given: MaskingRuleFields, samples: Samples) -> Masked:
        """What a rule, saved or not, would make of samples; nothing is kept. Raises Denied, Invalid."""
        _require_reader(principal)
        _check_samples(samples)
        rule = MaskingRule(uuid4(), principal.org_id, given.name)
        rule = await self._merged(rule, replace(given, connection_ids=None))
        return self._engine(rule, await self._access.masking_key(principal.org_id), samples)

    async def _existing(self, principal: Principal, rule_id: str) -> MaskingRule:
        key = _uuid(rule_id)
        found = await self._store.get(principal.org_id, key) if key is not None else None
        if found is None:
            raise NotFound(f"there is no masking rule {rule_id!r}")
        return found

    async def _merged(self, current: MaskingRule, given: MaskingRuleFields) -> MaskingRule:
        check_rule_name(given.name)
        if len(given.description) > MAX_DESCRIPTION:
            raise Invalid(f"description: at most {MAX_DESCRIPTION} characters", field="description")
        rule = replace(
            current,
            name=given.name,
            description=given.description,
            groups=given.groups,
            custom_types=given.custom_types,
            columns=given.columns,
            threshold=DEFAULT_THRESHOLD if given.threshold is None else given.threshold,
            strategy=given.strategy,
            strictness=given.strictness,
        )
        check_rule(rule, self._compiles, self._models)
        ids = current.connection_ids if given.connection_ids is None else given.connection_ids
        return replace(rule, connection_ids=await self._checked_connections(rule, tuple(map(str, ids))))

    async def _checked_connections(self, rule: MaskingRule, given: tuple[str, ...]) -> tuple[UUID, ...]:
        keys = [_uuid(text) for text in given]
        ids = sorted({key for key in keys if key is not None})
        found = {one.id: one for one in await self._connections.by_ids(rule.org_id, ids)} if ids else {}
        for text, key in zip(given, keys, strict=True):
            if key is None or key not in found:
                raise Invalid(f"connection_ids: there is no connection with id {text!r}", field="connection_ids")
            connection = found[key]
            if connection.protocol not in self._enforceable:
                raise Invalid(
                    f"connection_ids: rules cannot be enforced yet on subtype {connection.subtype!r} "
                    f"of connection {connection.name!r}",
                    field="connection_ids",
                )
            if connection.protocol in TEXTUAL and not rule.finds:
                raise Invalid(
                    f"connection_ids: what connection {connection.name!r} prints has no columns, so a rule for it "
                    "needs types to look for",
                    field="connection_ids",
                )
        return tuple(ids)

    async def _tell(self, connection_ids: Iterable[UUID]) -> None:
        for connection_id in set(connection_ids):
            await self._signals.publish(Topic.POLICY_CHANGED, connection_id=str(connection_id))


def _check_samples(samples: Samples) -> None:
    if len(samples.texts) > MAX_SAMPLES or len(samples.rows) > MAX_SAMPLES or len(samples.columns) > MAX_SAMPLES:
        raise Invalid(f"texts, columns and rows: at most {MAX_SAMPLES} each", field="texts")
    size = sum(map(len, samples.texts)) + sum(len(cell or "") for row in samples.rows for cell in row)
    if size > MAX_SAMPLE_LENGTH:
        raise Invalid(f"texts, rows: at most {MAX_SAMPLE_LENGTH} characters together", field="texts")
    for row in samples.rows:
        if len(row) != len(samples.columns):
            raise Invalid("rows: each needs as many cells as there are columns", field="rows")


def _require_reader(principal: Principal) -> None:
    if not principal.sees_all:
        raise Denied("only administrators and auditors may read masking rules")


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None
