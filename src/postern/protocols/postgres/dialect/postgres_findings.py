"""Results of the walk over a statement's tree."""

from __future__ import annotations

from dataclasses import dataclass, field

from postern.domain.rules.statement import Effect, ObjectKind, ObjectName, Statement

MOST_REASONS = 3


@dataclass(slots=True)
class Findings:
    """The effects and objects of a statement.

    `prepares` and `executes` are names of prepared statements, for PREPARE and EXECUTE. `encodes`: it may set the
    client's encoding to one in which Postern cannot read texts as the server does.
    """

    tag: str = ""
    effects: set[Effect] = field(default_factory=set)
    objects: set[ObjectName] = field(default_factory=set)
    without_where: bool = False
    reasons: list[str] = field(default_factory=list)
    prepares: str | None = None
    executes: str | None = None
    encodes: bool = False
    scans: frozenset[ObjectName] = frozenset()
    untraced: str = ""

    def unknown(self, reason: str) -> None:
        self.effects.add(Effect.UNKNOWN)
        if reason not in self.reasons and len(self.reasons) < MOST_REASONS:
            self.reasons.append(reason)

    def touches(self, kind: ObjectKind, parts: list[str]) -> None:
        """Record an object. `parts` is its name as the statement has it: schema and name, or the name alone."""
        if parts and parts[-1]:
            self.objects.add(ObjectName(kind, parts[-1], parts[-2] if len(parts) > 1 else ""))

    def join(self, other: Findings) -> None:
        """Add the findings of another statement to this one."""
        self.effects |= other.effects
        self.objects |= other.objects
        self.without_where |= other.without_where
        self.encodes |= other.encodes
        self.untraced = self.untraced or other.untraced
        for reason in other.reasons:
            self.unknown(reason)

    def statement(self) -> Statement:
        effects = frozenset(self.effects or {Effect.UNKNOWN})
        reason = "; ".join(self.reasons) if Effect.UNKNOWN in effects else ""
        return Statement(
            self.tag, effects, frozenset(self.objects), self.without_where, reason, self.scans, self.untraced
        )


def untold(name: str) -> str:
    """Return the reason why an EXECUTE alone is unknown."""
    return f"it runs the prepared statement {name}, whose text is unknown"
