"""The masking policies that every attack runs under."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from postern.domain.rules.masking import DEFAULT_TYPES, InfoType, MaskingRule, Strategy, Strictness, TypeGroup
from postern.domain.rules.policy import Policy
from postern.domain.secret import Secret

KEY = "5e" * 32
ALL_TYPES = (TypeGroup("ALL", tuple(sorted(DEFAULT_TYPES))),)


@dataclass(frozen=True, slots=True)
class Policing:
    """One column of the table. `is_marked`: answers of unknown origin pass, and leave a marker in the recording.

    `has_pseudonyms`: a plain column shows one pseudonym for each value. `variant` is the database that the first one
    is compared with: `b` differs only in what partial masking hides, `c` in length, sign and letters as well.
    """

    name: str
    strategy: Strategy = Strategy.REPLACE
    strictness: Strictness = Strictness.STRICT
    groups: tuple[TypeGroup, ...] = ()
    redacted: frozenset[InfoType] = frozenset()

    @property
    def is_marked(self) -> bool:
        return self.strictness is Strictness.BEST_EFFORT

    @property
    def has_pseudonyms(self) -> bool:
        return self.strategy is Strategy.HASH

    @property
    def variant(self) -> str:
        return "b" if self.strategy is Strategy.PARTIAL else "c"

    def rule(self, columns: Sequence[str]) -> MaskingRule:
        return MaskingRule(
            UUID(int=1), UUID(int=2), self.name, groups=self.groups, columns=tuple(columns), strategy=self.strategy,
            strictness=self.strictness,
        )  # fmt: skip

    def policy(self, columns: Sequence[str]) -> Policy:
        return Policy(masked_types=self.redacted, masking=(self.rule(columns),), masking_key=Secret(KEY))


STRATEGIES = (
    Policing("replace"),
    Policing("hash", Strategy.HASH),
    Policing("null", Strategy.NULL),
    Policing("partial", Strategy.PARTIAL),
    Policing("types", groups=ALL_TYPES),
    Policing("redact_types", redacted=frozenset(DEFAULT_TYPES)),
    Policing("best_effort", strictness=Strictness.BEST_EFFORT),
)
