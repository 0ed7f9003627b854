"""The interceptor of guard rails."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from postern.domain.guardrail import Action, GuardRail, Rule, RuleType
from postern.domain.target_schema import TargetSchema
from postern.inspection.guardrails.counting import RowCounts
from postern.inspection.guardrails.findings import Culprit, Finding, StatementCache, named
from postern.inspection.guardrails.statements import StatementRules, worse
from postern.inspection.guardrails.texts import Masker, by_severity, of_text
from postern.inspection.sql.parser import Parser, SessionParser
from postern.inspection.sql_comments import readings
from postern.interception.events import RUN, Event, Operation, Output, Rows
from postern.interception.pipeline import BatchNeed, SessionView
from postern.interception.verdicts import FORWARD, REPLACE, Hold, Refuse, Verdict, Warn

# Characters that are parsed where the event loop waits for it, in all statements that come together: some 10 ms.
AT_ONCE: Final = 2 * 1024

# Keywords have one spelling, but for case: a text without these prepares nothing and runs nothing by its name.
BY_NAME: Final = re.compile("[pPeE](?i:(?<=p)repare|(?<=e)xecute)")

_tickets = itertools.count(1)


class Rules:
    """The rules of one direction each, compiled; shared by the sessions that they hold for."""

    def __init__(self, rails: tuple[GuardRail, ...], parser: Parser | None, target: TargetSchema | None) -> None:
        inputs = [each for rail in rails for each in named(rail, rail.input)]
        outputs = [each for rail in rails for each in named(rail, rail.output)]
        about_statements = [(culprit, rule) for culprit, rule in inputs if rule.judges_statements]
        self.input = by_severity(inputs)
        self.first: Culprit | None = inputs[0][0] if inputs else None
        self.statements = StatementRules(about_statements, parser, target) if about_statements else None
        self.output = by_severity(outputs)
        masks = of_text(outputs, Action.MASK)
        self.masker = Masker(masks) if masks else None
        self.most = _fewest(outputs)
        self.judged = StatementCache()


def _fewest(outputs: list[tuple[Culprit, Rule]]) -> tuple[int, Culprit] | None:
    """The strictest max_rows."""
    found = [(rule.most, culprit) for culprit, rule in outputs if rule.type is RuleType.MAX_ROWS]
    return min(found, key=lambda one: one[0]) if found else None


def _batch_need(rails: tuple[GuardRail, ...]) -> BatchNeed:
    """The strictest outcome that an input rule can have. Rules that only warn need no batch."""
    outcomes = {str(outcome) for rail in rails for rule in rail.input for outcome in (rule.action, rule.unknown)}
    if Action.REVIEW in outcomes:
        return BatchNeed.REVIEW
    return BatchNeed.DENY if Action.DENY in outcomes else BatchNeed.NONE


@lru_cache(maxsize=64)
def _load(rails: tuple[GuardRail, ...], parser: Parser | None, target: TargetSchema | None) -> Rules:
    return Rules(rails, parser, target)


def _nothing() -> TargetSchema | None:
    return None


class GuardRails:
    """Sessions under the same rules share what is compiled and what was judged.

    `parser` is that of the connection's dialect; `target` gives what is known now of its own objects, `session_parser`
    follows the names that the session prepares. `access_help` is how people ask for what is refused, in the words of
    their organisation. Raises Invalid when a rule cannot be loaded: such a session must not
    begin.
    """

    name = "guard rails"

    def __init__(
        self,
        rules: tuple[GuardRail, ...],
        parser: Parser | None = None,
        target: Callable[[], TargetSchema | None] = _nothing,
        session_parser: SessionParser | None = None,
        access_help: str = "",
    ) -> None:
        self._access_help = access_help
        self._told_masks: set[Culprit] = set()  # the client hears of each once
        self._rails = rules
        self._parser = parser
        self._target = target
        self._session_parser = session_parser
        self._known = target()
        self._rules = _load(rules, parser, self._known)
        self._judges_input = self._rules.first is not None
        self._looks_at_output = bool(self._rules.output) or self._rules.masker is not None
        wants: set[type[Event]] = set()
        if self._judges_input:
            wants.add(Operation)
        if self._looks_at_output or self._rules.most is not None:
            wants |= {Rows, Output}
        if self._rules.most is not None:
            wants.add(Operation)
        self.wants: frozenset[type[Event]] = frozenset(wants)
        self.batch_need = _batch_need(rules)
        self._parsed = 0  # characters parsed at once since an operation was let through
        self._operations = 0  # … when that was
        self._counts = RowCounts()

    def see(self, event: Event, session: SessionView) -> Verdict:
        if isinstance(event, Operation):
            if self._rules.most is not None:
                self._counts.asked(event)
            if not self._judges_input:
                return FORWARD
            rules = self._current()
            known = None if event.truncated else rules.judged.get(event.text)
            # What is known for all sessions goes by no name.
            by_name = known is None and rules.statements is not None and BY_NAME.search(event.text) is not None
            verdict = self._see_operation(rules, event, session, known, by_name=by_name)
            # Told behind its judgement, and of what is refused, too: nothing is lost by knowing a name too many.
            if self._session_parser is not None and not event.truncated:
                if event.phase is not RUN:
                    self._session_parser.passed(event.text, by_protocol=True)
                elif by_name or self._session_parser.keeps(event.text):
                    self._session_parser.passed(event.text)
            return verdict
        if isinstance(event, Rows | Output):
            return self._see_answer(event, session)
        return FORWARD

    # What goes in

    def _current(self) -> Rules:
        """With what is known of the target by now."""
        if self._rules.statements is not None:
            target = self._target()
            if target is not self._known:
                self._known = target
                self._rules = _load(self._rails, self._parser, target)
        return self._rules

    def _see_operation(
        self,
        rules: Rules,
        event: Operation,
        session: SessionView,
        known: tuple[Finding | None] | None,
        *,
        by_name: bool,
    ) -> Verdict:
        """`known` is what was found for the text before; `by_name`: the text means something else in every session."""
        if event.truncated:
            assert rules.first is not None
            large = Finding(rules.first, Action.DENY)
            return _refuse(large, self._help(session), "this is too large to be judged by")
        if known is not None:
            found = with_values(rules, known[0], event.values)
            return FORWARD if found is None else _answer(found, event, self._help(session))
        work = _Work(rules, event, self._help(session), self._session_parser, by_name=by_name)
        size = len(event.text)
        if by_name and self._session_parser is not None:
            size += self._session_parser.weight
        if rules.statements is not None and not self._may_parse(size, session):
            later: Callable[[], Verdict] = work
            return Hold(_ticket(), "this statement is being parsed", work=later)
        return work()

    def _help(self, session: SessionView) -> str:
        """How to ask for it."""
        ask = self._access_help or "ask an administrator to change the guard rail."
        return f'If you need this on connection "{session.connection}": {ask}'

    def _may_parse(self, size: int, session: SessionView) -> bool:
        """Whether that is little enough, together with what was parsed for the same request."""
        if session.metrics.operations != self._operations:
            self._operations = session.metrics.operations
            self._parsed = 0
        if self._parsed + size > AT_ONCE:
            self._parsed = 0
            return False
        self._parsed += size
        return True

    # What comes out

    def _see_answer(self, event: Rows | Output, session: SessionView) -> Verdict:
        over = self._over(event)
        if over is not None:
            return _refuse(over, self._help(session))
        if not self._looks_at_output:
            return FORWARD
        rules = self._rules
        if isinstance(event, Rows):
            texts = [text for column in range(len(event.columns)) for text in event.texts(column)]
        else:
            texts = event.texts()
        if not texts:
            return FORWARD
        seen = texts if isinstance(event, Rows) else [*texts, *event.rendered()]
        worst: Finding | None = None
        for one in rules.output:
            worst = worse(worst, one.judge(seen))
        if worst is not None and worst.action is Action.DENY:
            return _refuse(worst, self._help(session))
        masked: Verdict = FORWARD
        if rules.masker is not None:
            masker = rules.masker
            failed = masker.mask_rows(event) if isinstance(event, Rows) else masker.mask_output(event, texts)
            if failed is not None:
                return _refuse(failed, self._help(session))
            if masker.size:
                session.metrics.transformed_bytes += masker.size
                masked = self._masked(masker, session)
        return masked if worst is None else _warn(worst, self._help(session))

    def _masked(self, masker: Masker, session: SessionView) -> Verdict:
        """The client is told once of each rule; the mark in the answer names it each time."""
        untold = [culprit for culprit in masker.culprits if culprit not in self._told_masks]
        if not untold:
            return REPLACE
        self._told_masks.add(untold[0])
        return Warn(
            rule=untold[0].title,
            message=Finding(untold[0], Action.MASK).said("masked by"),
            hint=f"{self._help(session)} This is said once.",
            is_violation=False,
        )

    def _over(self, event: Rows | Output) -> Finding | None:
        most = self._rules.most
        if most is None:
            return None
        rows = event.count if isinstance(event, Rows) else event.rows
        if not rows:
            return None
        if self._counts.add(event, rows) <= most[0]:
            return None
        return Finding(most[1], Action.DENY, f"the answer has more than {most[0]} rows")


class _Work:
    """The judgement of one statement, here or in a thread."""

    def __init__(
        self, rules: Rules, event: Operation, access_help: str, parser: SessionParser | None, *, by_name: bool
    ) -> None:
        self._rules = rules
        self._event = event
        self._help = access_help
        self._parser = parser
        self._by_name = by_name

    def __call__(self) -> Verdict:
        text = self._event.text
        finding = judge_text(self._rules, text, self._parser if self._by_name else None)
        if not self._by_name:
            self._rules.judged.put(text, finding)
        found = with_values(self._rules, finding, self._event.values)
        return FORWARD if found is None else _answer(found, self._event, self._help)


def judge_text(rules: Rules, text: str, parser: SessionParser | None = None) -> Finding | None:
    worst: Finding | None = None
    if rules.input:
        spellings = readings(text.encode("utf-8", "replace"))
        for one in rules.input:
            worst = worse(worst, one.judge(spellings, quotes=True))
    if rules.statements is None or (worst is not None and worst.action is Action.DENY):
        return worst
    return worse(worst, rules.statements.judge(text, parser))


def with_values(rules: Rules, finding: Finding | None, given: tuple[bytes | None, ...]) -> Finding | None:
    """What the bind values add; each of them is judged on its own."""
    if not given or not rules.input:
        return finding
    values = [value for value in given if value is not None]
    for one in rules.input:
        finding = worse(finding, one.judge(values, quotes=True))
    return finding


def _answer(finding: Finding, event: Operation, access_help: str) -> Verdict:
    """What is only prepared is not warned of nor reviewed: that comes when it is to run."""
    if event.phase is not RUN and finding.action is not Action.DENY:
        return FORWARD
    if finding.action is Action.WARN:
        return _warn(finding, access_help)
    if finding.action is Action.REVIEW:
        return Hold(_ticket(), finding.said("held by"), rule=finding.culprit.title)
    return _refuse(finding, access_help)


def _ticket() -> str:
    return str(next(_tickets))


def _warn(finding: Finding, access_help: str) -> Warn:
    return Warn(
        rule=finding.culprit.title,
        message=finding.said("warning of"),
        hint=f"It was let through, and is recorded. {access_help}",
    )


def _refuse(finding: Finding, access_help: str, beginning: str = "blocked by") -> Refuse:
    return Refuse(rule=finding.culprit.title, message=finding.said(beginning), hint=access_help)
