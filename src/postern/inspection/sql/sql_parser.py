"""Port of parsers."""

from __future__ import annotations

from typing import Final, Protocol

from postern.domain.rules.statement import Effect, Statement
from postern.domain.targets.target_schema import TargetSchema
from postern.inspection.sql.sql_shapes import Shapes

NO_CATALOGUE: Final = (
    "the target's catalogue could not be read, so the tables that its views read are unknown; "
    "the gateway's log says why"
)


class Parser(Protocol):
    @property
    def dialect(self) -> str:
        """Return the name of the dialect, as guardrails have it."""

    @property
    def shapes(self) -> Shapes | None:
        """Return the shapes of this dialect's statements, or None if it has none."""

    def parse(self, text: str, schema: TargetSchema | None = None) -> tuple[Statement, ...]:
        """Return each statement of the text in order; none for blanks and comments.

        `schema` describes the target's own views and functions. Never raises: text that cannot be parsed is one
        statement of unknown effect. Pure; can take milliseconds per 10 KB.
        """

    def __hash__(self) -> int:
        """Return a hash, by which findings of this parser are cached."""


class SessionParser(Protocol):
    """Parser for the statements of one session, some of which depend on earlier ones."""

    @property
    def weight(self) -> int:
        """Return how many characters of earlier statements can have to be read for a text that executes one by name."""

    def parse(self, text: str, schema: TargetSchema | None = None) -> tuple[Statement, ...]:
        """Return statements as `Parser.parse` does, taking earlier statements into account."""

    def matters_later(self, text: str) -> bool:
        """Return whether this text matters to later ones, without containing PREPARE or EXECUTE."""

    def executed_statements(self, text: str, schema: TargetSchema | None = None) -> list[str]:
        """Return the statements that this text executes by name, once each. `parse` must have seen the text."""

    def record_gap(self) -> None:
        """Record that statements were missed: from now on, the effect of EXECUTE is unknown."""

    def record_statement(self, text: str, *, by_protocol: bool = False) -> None:
        """Record a statement that goes to the target. `by_protocol`: to be prepared under a name that is not known."""


def unknown(reason: str, tag: str = "") -> Statement:
    return Statement(tag, frozenset({Effect.UNKNOWN}), reason=reason)
