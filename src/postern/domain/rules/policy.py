"""What applies to one session: rules, masking and limits, taken as one snapshot."""

from __future__ import annotations

from dataclasses import dataclass, field

from postern.domain.rules.guardrail import GuardRail, RuleType
from postern.domain.rules.masking import InfoType, MaskingRule
from postern.domain.secret import Secret


@dataclass(frozen=True, slots=True)
class Policy:
    """`max_duration` is in seconds; None means no limit beyond the gateway's own. `masked_types` are replaced besides
    what the rules of `masking` say; `masking_key` is what they hash by, where one of them does. `access_help` is what
    the organisation tells who is refused."""

    guardrails: tuple[GuardRail, ...] = ()
    masked_types: frozenset[InfoType] = frozenset()
    masking: tuple[MaskingRule, ...] = ()
    masking_key: Secret = field(default_factory=lambda: Secret(""))
    max_duration: int | None = None
    access_help: str = ""


# Rules about what a statement does, which the target's own views and functions have a part in.
_ABOUT_EFFECTS = frozenset({RuleType.DENY_STATEMENTS, RuleType.READ_ONLY})


def needs_schema(policy: Policy) -> bool:
    """Whether what the target's catalogue says is of use for it: reading that costs a login of its own."""
    if any(rule.columns for rule in policy.masking):
        return True
    return any(rule.type in _ABOUT_EFFECTS for rail in policy.guardrails for rule in rail.input)
