"""Guard rails tried on text, outside of any session: which rules hit, where, and why."""

from __future__ import annotations

from postern.domain.guardrail import TEXT_TYPES, Action, GuardRail, Rule
from postern.domain.statement import Statement
from postern.domain.trial import Hit, Trial
from postern.inspection.guardrails.findings import Culprit, Finding, StatementCache, named
from postern.inspection.guardrails.interceptor import Rules, judge_text
from postern.inspection.guardrails.statements import StatementRule, StatementRules, worse
from postern.inspection.guardrails.texts import patterns_of
from postern.inspection.patterns import Lookup
from postern.inspection.sql.parser import Parser
from postern.inspection.sql_comments import readings


def try_input(rail: GuardRail, text: str, parser: Parser | None) -> Trial:
    """Raises Invalid when a rule judges statements and there is no parser."""
    found: list[tuple[Finding, tuple[tuple[int, int], ...]]] = []
    spellings = readings(text.encode("utf-8", "replace"))
    rules = named(rail, rail.input)
    about_statements = [one for one in rules if one[1].judges_statements]
    reader = StatementRules(about_statements, parser) if about_statements else None
    for culprit, rule in rules:
        if rule.type in TEXT_TYPES:
            lookup = Lookup(patterns_of(rule))
            if any(lookup.hits(spelling) for spelling in spellings):
                found.append((Finding(culprit, rule.action), _spans(lookup, text)))
        elif reader is not None:
            finding = _of_statements(reader, culprit, rule, text)
            if finding is not None:
                found.append((finding, ()))
    statements = parser.parse(text) if parser is not None else ()
    return _trial(found, statements)


def try_output(rail: GuardRail, text: str) -> Trial:
    """Rules about text only: rows are counted where there are some."""
    found: list[tuple[Finding, tuple[tuple[int, int], ...]]] = []
    for culprit, rule in named(rail, rail.output):
        if rule.type in TEXT_TYPES:
            lookup = Lookup(patterns_of(rule))
            if lookup.hits(text.encode("utf-8", "replace")):
                found.append((Finding(culprit, rule.action), _spans(lookup, text)))
    return _trial(found, ())


def _of_statements(reader: StatementRules, culprit: Culprit, rule: Rule, text: str) -> Finding | None:
    one = StatementRule(culprit, rule)
    worst: Finding | None = None
    for statement in reader.parse(text, one.harmless):
        worst = worse(worst, one.judge(statement, None))
    return worst


def _spans(lookup: Lookup, text: str) -> tuple[tuple[int, int], ...]:
    data = text.encode("utf-8", "replace")
    return tuple(
        (len(data[:start].decode("utf-8", "ignore")), len(data[:end].decode("utf-8", "ignore")))
        for start, end in lookup.spans(data)
    )


def _trial(found: list[tuple[Finding, tuple[tuple[int, int], ...]]], statements: tuple[Statement, ...]) -> Trial:
    worst: Finding | None = None
    for finding, _ in found:
        worst = worse(worst, finding)
    hits = tuple(Hit(one.culprit.rule, one.action, one.reason, spans, one.unknown) for one, spans in found)
    return Trial(
        worst.action if worst else None, worst.said(_BEGINNINGS[worst.action]) if worst else "", hits, statements
    )


_BEGINNINGS = {
    Action.DENY: "blocked by",
    Action.REVIEW: "held by",
    Action.WARN: "warning of",
    Action.MASK: "masked by",
}


class Trier:
    """One guard rail's input rules over many texts, as a session would judge them. Raises Invalid as `try_input`."""

    def __init__(self, rail: GuardRail, parser: Parser | None) -> None:
        self._rules = Rules((rail,), parser, None)
        self._judged = StatementCache()

    def judge(self, text: str) -> Hit | None:
        """The rule that would decide."""
        known = self._judged.get(text)
        if known is not None:
            finding = known[0]
        else:
            finding = judge_text(self._rules, text)
            self._judged.put(text, finding)
        if finding is None:
            return None
        return Hit(finding.culprit.rule, finding.action, finding.reason, unknown=finding.unknown)
