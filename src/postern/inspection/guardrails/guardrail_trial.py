"""Trial of guardrails outside of a session: which rules match, where, and why."""

from __future__ import annotations

from postern.domain.rules.guardrail import TEXT_TYPES, Action, Guardrail, Rule
from postern.domain.rules.statement import Statement
from postern.domain.rules.trial import Answered, Hit, RecordedStatement, Trial
from postern.inspection.guardrails.guardrail_findings import Culprit, GuardrailFinding, name_rules
from postern.inspection.guardrails.guardrail_interceptor import BY_NAME
from postern.inspection.guardrails.guardrail_rules import CompiledRules, judge_text, with_values
from postern.inspection.guardrails.guardrail_texts import patterns_of
from postern.inspection.guardrails.statements import UNASKED, StatementRule, StatementRules, worse
from postern.inspection.patterns import Lookup
from postern.inspection.sql.sql_parser import Parser, SessionParser
from postern.inspection.sql_comments import readings


def try_input(rail: Guardrail, text: str, parser: Parser | None) -> Trial:
    """Try the input rules on a text. Raises Invalid when a rule judges statements and there is no parser."""
    matches: list[tuple[GuardrailFinding, tuple[tuple[int, int], ...]]] = []
    spellings = readings(text.encode("utf-8", "replace"))
    rules = name_rules(rail, rail.input)
    about_statements = [pair for pair in rules if pair[1].judges_statements]
    reader = StatementRules(about_statements, parser, UNASKED) if about_statements else None
    for culprit, rule in rules:
        if rule.type in TEXT_TYPES:
            lookup = Lookup(patterns_of(rule))
            if any(lookup.hits(spelling) for spelling in spellings):
                matches.append((GuardrailFinding(culprit, rule.action), _spans(lookup, text)))
        elif reader is not None:
            finding = _judge_statements(reader, culprit, rule, text)
            if finding is not None:
                matches.append((finding, ()))
    statements = parser.parse(text) if parser is not None else ()
    return _trial(matches, statements)


def try_output(rail: Guardrail, text: str) -> Trial:
    """Try the text rules for output. Rows are not counted, because there are none."""
    matches: list[tuple[GuardrailFinding, tuple[tuple[int, int], ...]]] = []
    for culprit, rule in name_rules(rail, rail.output):
        if rule.type in TEXT_TYPES:
            lookup = Lookup(patterns_of(rule))
            if lookup.hits(text.encode("utf-8", "replace")):
                matches.append((GuardrailFinding(culprit, rule.action), _spans(lookup, text)))
    return _trial(matches, ())


def _judge_statements(reader: StatementRules, culprit: Culprit, rule: Rule, text: str) -> GuardrailFinding | None:
    statement_rule = StatementRule(culprit, rule)
    worst: GuardrailFinding | None = None
    for statement in reader.parse(text, statement_rule.harmless):
        worst = worse(worst, statement_rule.judge(statement, UNASKED))
    return worst


def _spans(lookup: Lookup, text: str) -> tuple[tuple[int, int], ...]:
    data = text.encode("utf-8", "replace")
    return tuple(
        (len(data[:start].decode("utf-8", "ignore")), len(data[:end].decode("utf-8", "ignore")))
        for start, end in lookup.spans(data)
    )


def _trial(
    matches: list[tuple[GuardrailFinding, tuple[tuple[int, int], ...]]], statements: tuple[Statement, ...]
) -> Trial:
    worst: GuardrailFinding | None = None
    for finding, _ in matches:
        worst = worse(worst, finding)
    hits = tuple(
        Hit(finding.culprit.rule, finding.action, finding.reason, spans, finding.unknown) for finding, spans in matches
    )
    return Trial(
        worst.action if worst else None, worst.describe(_BEGINNINGS[worst.action]) if worst else "", hits, statements
    )


_BEGINNINGS = {
    Action.DENY: "blocked by",
    Action.REVIEW: "held by",
    Action.WARN: "warning of",
    Action.MASK: "masked by",
}


class Trier:
    """Trial of one guardrail on recorded sessions of one dialect.

    Raises Invalid as `try_input` does.
    """

    def __init__(self, rail: Guardrail, parser: Parser | None) -> None:
        self._rules = CompiledRules((rail,), parser, UNASKED)

    def session(self, names: SessionParser | None) -> SessionTrier:
        """Start the trial of a session. `names` follows what the session prepares."""
        return SessionTrier(self._rules, names)


class SessionTrier:
    """Trial of one session. Takes its steps in order."""

    def __init__(self, rules: CompiledRules, names: SessionParser | None) -> None:
        self._rules = rules
        self._names = names if rules.statements is not None else None
        self._refused: set[str] = set()  # texts whose preparation would be denied, so that they never run
        self._rows = 0

    def judge_statement(self, step: RecordedStatement) -> Hit | None:
        """Return the rule that would decide on this statement."""
        self._rows = 0
        if self._rules.first is None:
            return None
        finding = self._find(step)
        if finding is None or (step.prepared and finding.action is not Action.DENY):
            return None
        if step.prepared:
            if len(self._refused) < _REFUSED:
                self._refused.add(step.text)
        elif step.text in self._refused and not step.values:
            return None
        return _hit(finding)

    def _find(self, step: RecordedStatement) -> GuardrailFinding | None:
        rules = self._rules
        if step.truncated:
            assert rules.first is not None
            return GuardrailFinding(rules.first, Action.DENY, "the statement is too large to be evaluated")
        by_name = self._names if BY_NAME.search(step.text) else None
        cached = None if by_name is not None else rules.judged.get(step.text)
        if cached is not None:
            finding = cached[0]
        else:
            finding = judge_text(rules, step.text, by_name)
            if by_name is None:
                rules.judged.put(step.text, finding)
        if self._names is not None and (step.prepared or by_name is not None or self._names.matters_later(step.text)):
            self._names.record_statement(step.text, by_protocol=step.prepared)
        return with_values(rules, finding, step.values)

    def judge_answer(self, step: Answered) -> Hit | None:
        """Return the rule that would decide on this part of an answer."""
        rules = self._rules
        before, self._rows = self._rows, 0 if step.ends else self._rows + step.rows
        if rules.most is not None and before <= rules.most[0] < before + step.rows:
            return _hit(GuardrailFinding(rules.most[1], Action.DENY, f"the result has more than {rules.most[0]} rows"))
        worst: GuardrailFinding | None = None
        for rule_set in rules.output:
            worst = worse(worst, rule_set.judge(step.texts))
        if rules.masker is not None and (worst is None or worst.action is not Action.DENY):
            culprit = rules.masker.hit_by(step.texts)
            worst = worse(worst, None if culprit is None else GuardrailFinding(culprit, Action.MASK))
        return None if worst is None else _hit(worst)


_REFUSED = 1_000


def _hit(finding: GuardrailFinding) -> Hit:
    return Hit(finding.culprit.rule, finding.action, finding.reason, unknown=finding.unknown)
