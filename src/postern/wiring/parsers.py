"""Which parser reads the statements of which connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import cast

from postern.domain.dialect import DIALECTS
from postern.domain.guardrail import GuardRail
from postern.domain.policy import Policy
from postern.domain.trial import Trial
from postern.inspection.encodings import ClientEncodings
from postern.inspection.guardrails.trial import SessionTrier, Trier, try_input, try_output
from postern.inspection.sql.parser import Parser, SessionParser
from postern.inspection.sql.postgres.parser import PostgresParser
from postern.inspection.sql.postgres.prepared import PreparedStatements
from postern.inspection.sql.shared import own
from postern.interception.pipeline import Interceptor, SessionView

# By the name of the dialect. A process loads those that it asks for: together they take half a second and 60 MB.
_CLASSES: Mapping[str, tuple[str, str]] = {
    "postgres": ("postgres.parser", "PostgresParser"),
    "mysql": ("mysql", "MySqlParser"),
    "tsql": ("tsql", "TSqlParser"),
    "oracle": ("oracle", "OracleParser"),
}

_KEPT = "prepared statements"
_ENCODINGS = "client encodings"

PARSED = frozenset(protocol for protocol, dialect in DIALECTS.items() if dialect in _CLASSES)


@lru_cache
def parser_of(dialect: str) -> Parser | None:
    """One for each process, as it keeps what it has parsed."""
    if dialect not in _CLASSES:
        return None
    module, name = _CLASSES[dialect]
    return cast("Parser", own(getattr(import_module(f"postern.inspection.sql.{module}"), name)))


def parser_for(protocol: str) -> Parser | None:
    """Of what is spoken with a target; None where nothing can be known of statements."""
    return parser_of(DIALECTS.get(protocol, ""))


def session_parser(policy: Policy, protocol: str, view: SessionView) -> SessionParser | None:
    """One that stays as long as policies need it: it must hear of every statement."""
    judges = any(rule.judges_statements for rail in policy.guardrails for rule in rail.input)
    kept = view.kept.pop(_KEPT, None)
    names = cast("SessionParser | None", kept) if judges and kept is not None else None
    if judges and names is None:
        names = _names_of(parser_for(protocol))
        if names is not None and view.metrics.operations:
            names.missed()
    if names is None:
        view.meant = None
        return None
    view.kept[_KEPT] = names
    view.meant = lambda text: names.meant(text, view.schema)
    return names


def _names_of(parser: Parser | None) -> SessionParser | None:
    """What follows the names of one session."""
    if isinstance(parser, PostgresParser):
        return PreparedStatements(parser)
    if parser is not None and parser.dialect == "mysql":
        made: SessionParser = import_module("postern.inspection.sql.mysql_prepared").MySqlPreparedStatements(parser)
        return made
    return None


def client_encodings(policy: Policy, protocol: str, view: SessionView) -> Interceptor | None:
    """Wherever somebody reads what is asked or answered."""
    if not (policy.guardrails or policy.masked_types or policy.masking):
        return None
    parser = parser_for(protocol)
    if isinstance(parser, PostgresParser):
        return ClientEncodings(parser)
    if parser is None or parser.dialect != "mysql":
        return None
    found = view.kept.get(_ENCODINGS)
    if found is None:
        # It keeps what was prepared, when the policy is renewed.
        found = import_module("postern.inspection.mysql_encodings").MySqlEncodings()
        view.kept[_ENCODINGS] = found
    return cast("Interceptor", found)


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
            return trier.session(_names_of(parser))

        return session
