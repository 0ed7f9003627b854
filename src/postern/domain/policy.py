"""What applies to one session: rules, masking and limits, taken as one snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from postern.domain.guardrail import GuardRail
from postern.domain.masking import InfoType


@dataclass(frozen=True, slots=True)
class Policy:
    """`max_duration` is in seconds; None means no limit beyond the gateway's own."""

    guardrails: tuple[GuardRail, ...] = ()
    masked_types: frozenset[InfoType] = frozenset()
    max_duration: int | None = None
