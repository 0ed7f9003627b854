"""Which parser reads the statements of which connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from postern.domain.dialect import DIALECTS
from postern.domain.guardrail import GuardRail
from postern.domain.trial import Hit, Trial
from postern.inspection.guardrails.trial import Trier, try_input, try_output
from postern.inspection.sql.parser import Parser
from postern.inspection.sql.postgres.parser import PostgresParser

PARSERS: Mapping[str, Parser] = {"postgres": PostgresParser()}  # by the name of the dialect

PARSED = frozenset(protocol for protocol, dialect in DIALECTS.items() if dialect in PARSERS)


def parser_for(protocol: str) -> Parser | None:
    """Of what is spoken with a target; None where nothing can be known of statements."""
    return PARSERS.get(DIALECTS.get(protocol, ""))


class Judge:
    """Guard rails tried outside of sessions, for `services.guardrail_trials`."""

    def try_input(self, rail: GuardRail, text: str, dialect: str) -> Trial:
        return try_input(rail, text, PARSERS.get(dialect))

    def try_output(self, rail: GuardRail, text: str) -> Trial:
        return try_output(rail, text)

    def over(self, rail: GuardRail, dialect: str) -> Callable[[str], Hit | None]:
        return Trier(rail, PARSERS.get(dialect)).judge
