"""The parsers of each connection's statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import cast

from postern.domain.rules.guardrail import Guardrail
from postern.domain.rules.policy import Policy
from postern.domain.rules.trial import Trial
from postern.domain.targets.dialect import DIALECTS
from postern.domain.targets.target_schema import TargetSchema
from postern.inspection.guardrails.guardrail_trial import SessionTrier, Trier, try_input, try_output
from postern.inspection.sql.script_analysis import AnalyseScript
from postern.inspection.sql.sql_parser import Parser, SessionParser
from postern.interception.pipeline import Interceptor, SessionView
from postern.protocols.registry import PROTOCOLS
from postern.protocols.spec import DialectSpec

# A process loads only the parsers that it needs: together they take half a second and 60 MB.
_SPOKEN: Mapping[str, DialectSpec] = {
    spec.dialect.name: spec.dialect for spec in PROTOCOLS.values() if spec.dialect is not None
}

_KEPT = "prepared statements"
_ENCODINGS = "client encodings"

PARSED = frozenset(DIALECTS)


@lru_cache
def parser_of(dialect: str) -> Parser | None:
    """Return the process's parser of a dialect, which caches what it has parsed; None if there is none."""
    return _SPOKEN[dialect].parser() if dialect in _SPOKEN else None


def parser_for(protocol: str) -> Parser | None:
    """Return the parser for a target; None if statements cannot be parsed."""
    return parser_of(DIALECTS.get(protocol, ""))


def session_parser(policy: Policy, protocol: str, view: SessionView) -> SessionParser | None:
    """Return the session's parser, which stays as long as policies need it, since it must see every statement."""
    judges = any(rule.judges_statements for rail in policy.guardrails for rule in rail.input)
    carried_parser = view.carried_over.pop(_KEPT, None)
    names = cast("SessionParser | None", carried_parser) if judges and carried_parser is not None else None
    if judges and names is None:
        names = _names_of(parser_for(protocol))
        if names is not None and view.metrics.operations:
            names.record_gap()
    if names is None:
        view.resolve_name = None
        return None
    view.carried_over[_KEPT] = names
    view.resolve_name = lambda text: names.executed_statements(text, view.schema)
    return names


def _names_of(parser: Parser | None) -> SessionParser | None:
    """Return the tracker of one session's names."""
    spec = None if parser is None else _SPOKEN.get(parser.dialect)
    return None if parser is None or spec is None or spec.names is None else spec.names(parser)


def client_encodings(policy: Policy, protocol: str, view: SessionView) -> Interceptor | None:
    """Return the interceptor that checks encodings, wherever a rule reads input or output."""
    if not (policy.guardrails or policy.masked_types or policy.masking):
        return None
    parser = parser_for(protocol)
    spec = None if parser is None else _SPOKEN.get(parser.dialect)
    if parser is None or spec is None or spec.encodings is None:
        return None
    interceptor = view.carried_over.get(_ENCODINGS)
    if interceptor is None:
        # It keeps prepared statements when the policy is renewed.
        interceptor = view.carried_over[_ENCODINGS] = spec.encodings(parser)
    return cast("Interceptor", interceptor)


def analysis_task(
    protocol: str, schema: TargetSchema | None, text: str, most: int, statements: Sequence[tuple[int, int, str]] = ()
) -> AnalyseScript | None:
    """Return the task that analyses a script's first `most` statements; None where statements cannot be parsed.

    `statements` are the places and texts of those that the script's client has found.
    """
    parser = parser_for(protocol)
    spec = None if parser is None else _SPOKEN.get(parser.dialect)
    if parser is None or spec is None or spec.split is None:
        return None
    return AnalyseScript(parser, spec.split(), spec.names, schema, text, most, statements=statements)


class ParserJudge:
    """Guardrail trials outside of sessions, for `services.guardrail_trials`."""

    def try_input(self, rail: Guardrail, text: str, dialect: str) -> Trial:
        return try_input(rail, text, parser_of(dialect))

    def try_output(self, rail: Guardrail, text: str) -> Trial:
        return try_output(rail, text)

    def over(self, rail: Guardrail, dialect: str) -> Callable[[], SessionTrier]:
        parser = parser_of(dialect)
        trier = Trier(rail, parser)

        def session() -> SessionTrier:
            return trier.session(_names_of(parser))

        return session
