"""Masking rules: what to hide in output, checked when it is saved so that it can be enforced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID, uuid4

from postern.domain.identity.principal import Principal
from postern.domain.rules.masking import DetectedType, MaskingRule, check_rule
from postern.domain.rules.masking_presets import PRESETS, MaskingPreset
from postern.domain.secret import Secret
from postern.domain.targets.connection import OPAQUE, OPAQUE_REASON, TEXTUAL, Connection
from postern.errors import Invalid
from postern.services.identity.users import require_reader
from postern.services.targets.connection_rules import ConnectionRules
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.named_resource_ports import NamedResourceStore
from postern.store.ports.target_ports import AccessStore, ConnectionStore

MAX_DESCRIPTION = 10_000
MAX_SAMPLES = 100
MAX_SAMPLE_LENGTH = 100_000  # characters of all samples together


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples to mask. `columns` are names of the columns of `rows`, as in a rule: `email`, `users.email`. None is
    NULL."""

    texts: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str | None, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class MaskedSamples:
    """The masked samples, and how many values of each type were masked."""

    texts: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    counts: dict[str, int] = field(default_factory=dict)


class MaskingEngine(Protocol):
    def __call__(self, rule: MaskingRule, key: Secret, samples: Samples) -> MaskedSamples:
        """Return the masked samples. Raises Denied where the rule would deny them."""


class MaskingRules(ConnectionRules[MaskingRule]):
    """`compiles(pattern)` returns None, or why the engine rejects it; `engine` also masks sessions; `models` are the
    types that a language model finds here, `types` all that can be detected."""

    noun = "masking rule"

    def __init__(
        self,
        store: NamedResourceStore[MaskingRule],
        access: AccessStore,
        connections: ConnectionStore,
        signals: Signals,
        now: Clock,
        *,
        compiles: Callable[[str], str | None],
        engine: MaskingEngine,
        enforceable: frozenset[str],
        models: frozenset[str] = frozenset(),
        types: tuple[DetectedType, ...] = (),
    ) -> None:
        super().__init__(store, connections, signals, now, enforceable)
        self._access = access
        self._compiles = compiles
        self._engine = engine
        self._models = models
        self._types = types

    def presets(self, principal: Principal) -> tuple[MaskingPreset, ...]:
        """Return the preset rules. Raises Denied."""
        require_reader(principal, "masking rules")
        return PRESETS

    def types(self, principal: Principal) -> tuple[DetectedType, ...]:
        """Return the information types that a rule can name, by name. Raises Denied."""
        require_reader(principal, "masking rules")
        return self._types

    async def test(self, principal: Principal, fields: Mapping[str, Any], samples: Samples) -> MaskedSamples:
        """Return samples as a rule, saved or not, would mask them; nothing is stored. Raises Denied, Invalid."""
        require_reader(principal, "masking rules")
        _check_samples(samples)
        values = {name: value for name, value in fields.items() if name != "connection_ids"}
        blank = self.blank(uuid4(), principal.org_id)
        rule = await self.merge(blank, blank, values)
        return self._engine(rule, await self._access.masking_key(principal.org_id), samples)

    def blank(self, key: UUID, org_id: UUID) -> MaskingRule:
        return MaskingRule(key, org_id, "")

    async def check(self, resource: MaskingRule) -> None:
        check_rule(resource, self._compiles, self._models)
        await super().check(resource)

    async def check_connection(self, rule: MaskingRule, connection: Connection) -> str | None:
        if connection.protocol in OPAQUE:
            return f"nothing can be masked on subtype {connection.subtype!r}: {OPAQUE_REASON}"
        if connection.protocol in TEXTUAL and not rule.finds:
            return "its output has no columns, so its rules need information types"
        return None


def _check_samples(samples: Samples) -> None:
    if len(samples.texts) > MAX_SAMPLES or len(samples.rows) > MAX_SAMPLES or len(samples.columns) > MAX_SAMPLES:
        raise Invalid(f"texts, columns and rows: at most {MAX_SAMPLES} each", field="texts")
    size = sum(map(len, samples.texts)) + sum(len(cell or "") for row in samples.rows for cell in row)
    if size > MAX_SAMPLE_LENGTH:
        raise Invalid(f"texts, rows: at most {MAX_SAMPLE_LENGTH} characters together", field="texts")
    for row in samples.rows:
        if len(row) != len(samples.columns):
            raise Invalid("rows: each needs as many cells as there are columns", field="rows")
