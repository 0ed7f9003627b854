"""The policy of one session: a snapshot of rules, masking and limits."""

from __future__ import annotations

from dataclasses import dataclass, field

from postern.domain.rules.guardrail import Guardrail, RuleType
from postern.domain.rules.masking import InfoType, MaskingRule
from postern.domain.secret import Secret


@dataclass(frozen=True, slots=True)
class Policy:
    """`max_duration` is in seconds; None means no limit beyond the gateway's own. `masked_types` are masked besides
    the rules of `masking`; `masking_key` is their key for hashes, where one uses them. `access_help` is the
    organisation's hint for denied users."""

    guardrails: tuple[Guardrail, ...] = ()
    masked_types: frozenset[InfoType] = frozenset()
    masking: tuple[MaskingRule, ...] = ()
    masking_key: Secret = field(default_factory=lambda: Secret(""))
    max_duration: int | None = None
    access_help: str = ""


# Rules about what a statement does, which the target's own views and functions have a part in.
_ABOUT_EFFECTS = frozenset({RuleType.DENY_STATEMENTS, RuleType.READ_ONLY})


def needs_schema(policy: Policy) -> bool:
    """Return whether it uses the target's catalogue, which costs a login of its own to read."""
    if any(rule.columns for rule in policy.masking):
        return True
    return any(rule.type in _ABOUT_EFFECTS for rail in policy.guardrails for rule in rail.input)
