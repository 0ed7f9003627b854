"""Which parser reads the statements of which connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module

from postern.domain.dialect import DIALECTS
from postern.domain.guardrail import GuardRail
from postern.domain.policy import Policy
from postern.domain.trial import Trial
from postern.inspection.encodings import ClientEncodings
from postern.inspection.guardrails.trial import SessionTrier, Trier, try_input, try_output
from postern.inspection.sql.parser import Parser, SessionParser
from postern.inspection.sql.postgres.parser import PostgresParser
from postern.inspection.sql.postgres.prepared import PreparedStatements
from postern.interception.pipeline import SessionView

# By the name of the dialect. A process loads those that it asks for: together they take half a second and 60 MB.
_CLASSES: Mapping[str, tuple[str, str]] = {
    "postgres": ("postgres.parser", "PostgresParser"),
    "mysql": ("mysql", "MySqlParser"),
    "tsql": ("tsql", "TSqlParser"),
    "oracle": ("oracle", "OracleParser"),
}

_KEPT = "prepared statements"

PARSED = frozenset(protocol for protocol, dialect in DIALECTS.items() if dialect in _CLASSES)


@lru_cache
def parser_of(dialect: str) -> Parser | None:
    """One for each process, as it keeps what it has parsed."""
    if dialect not in _CLASSES:
        return None
    module, name = _CLASSES[dialect]
    made: Parser = getattr(import_module(f"postern.inspection.sql.{module}"), name)()
    return made


def parser_for(protocol: str) -> Parser | None:
    """Of what is spoken with a target; None where nothing can be known of statements."""
    return parser_of(DIALECTS.get(protocol, ""))


def session_parser(policy: Policy, protocol: str, view: SessionView) -> SessionParser | None:
    """One that stays as long as policies need it: it must hear of every statement."""
    parser = parser_for(protocol)
    judges = any(rule.judges_statements for rail in policy.guardrails for rule in rail.input)
    if not judges or not isinstance(parser, PostgresParser):
        view.kept.pop(_KEPT, None)
        view.meant = None
        return None
    found = view.kept.get(_KEPT)
    if not isinstance(found, PreparedStatements):
        found = view.kept[_KEPT] = PreparedStatements(parser)
        if view.metrics.operations:
            found.missed()
    names = found
    view.meant = lambda text: names.meant(text, view.schema)
    return found


def client_encodings(policy: Policy, protocol: str) -> ClientEncodings | None:
    """Wherever somebody reads what is asked or answered."""
    parser = parser_for(protocol)
    reads = policy.guardrails or policy.masked_types or policy.masking
    return ClientEncodings(parser) if reads and isinstance(parser, PostgresParser) else None


class Judge:
    """Guard rails tried outside of sessions, for `services.guardrail_trials`."""

    def try_input(self, rail: GuardRail, text: str, dialect: str) -> Trial:
        return try_input(rail, text, parser_of(dialect))

    def try_output(self, rail: GuardRail, text: str) -> Trial:
        return try_output(rail, text)

    def over(self, rail: GuardRail, dialect: str) -> Callable[[], SessionTrier]:
        parser = parser_of(dialect)
        trier = Trier(rail, parser)

        def session() -> SessionTrier:
            return trier.session(PreparedStatements(parser) if isinstance(parser, PostgresParser) else None)

        return session
