"""The interceptor of guard rails."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from postern.domain.guardrail import Action, GuardRail, Rule, RuleType
from postern.domain.target_schema import TargetSchema
from postern.inspection.guardrails.findings import Culprit, Finding, StatementCache, named
from postern.inspection.guardrails.statements import StatementRules, worse
from postern.inspection.guardrails.texts import Masker, by_severity, of_text
from postern.inspection.sql.parser import Parser, SessionParser
from postern.inspection.sql_comments import readings
from postern.interception.events import RUN, Event, Operation, Output, Rows
from postern.interception.pipeline import SessionView
from postern.interception.verdicts import FORWARD, REPLACE, Hold, Refuse, Verdict, Warn

# Characters that are parsed where the event loop waits for it, in all statements that come together: some 10 ms.
AT_ONCE: Final = 2 * 1024

# Keywords have one spelling, but for case: a text without these prepares nothing and runs nothing by its name.
_BY_NAME: Final = re.compile("[pPeE](?i:(?<=p)repare|(?<=e)xecute)")

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


class _Known:
    """A snapshot by its identity: one that is read anew is another one, whatever is in it."""

    def __init__(self, target: TargetSchema | None) -> None:
        self.target = target

    def __hash__(self) -> int:
        return id(self.target)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and other.target is self.target


@lru_cache(maxsize=64)
def _load(rails: tuple[GuardRail, ...], parser: Parser | None, known: _Known) -> Rules:
    return Rules(rails, parser, known.target)


def _nothing() -> TargetSchema | None:
    return None


class GuardRails:
    """Sessions under the same rules share what is compiled and what was judged.

    `parser` is that of the connection's dialect; `target` gives what is known now of its own objects, `session_parser`
    follows the names that the session prepares. Raises Invalid when a rule cannot be loaded: such a session must not
    begin.
    """

    name = "guard rails"

    def __init__(
        self,
        rules: tuple[GuardRail, ...],
        parser: Parser | None = None,
        target: Callable[[], TargetSchema | None] = _nothing,
        session_parser: SessionParser | None = None,
    ) -> None:
        self._rails = rules
        self._parser = parser
        self._target = target
        self._session_parser = session_parser
        self._known = target()
        self._rules = _load(rules, parser, _Known(self._known))
        self._judges_input = self._rules.first is not None
        self._looks_at_output = bool(self._rules.output) or self._rules.masker is not None
        wants: set[type[Event]] = set()
        if self._judges_input:
            wants.add(Operation)
        if self._looks_at_output or self._rules.most is not None:
            wants |= {Rows, Output}
        self.wants: frozenset[type[Event]] = frozenset(wants)
        self._parsed = 0  # characters parsed at once since an operation was let through
        self._operations = 0  # … when that was
        self._counted = 0  # the exchange whose rows are counted
        self._count = 0

    def see(self, event: Event, session: SessionView) -> Verdict:
        if isinstance(event, Operation):
            if not self._judges_input:
                return FORWARD
            rules = self._current()
            known = None if event.truncated else rules.judged.get(event.text)
            # What is known for all sessions goes by no name.
            by_name = known is None and rules.statements is not None and _BY_NAME.search(event.text) is not None
            verdict = self._see_operation(rules, event, session, known, by_name=by_name)
            # Told behind its judgement, and of what is refused, too: nothing is lost by knowing a name too many.
            if self._session_parser is not None and not event.truncated:
                if event.phase is not RUN:
                    self._session_parser.passed(event.text, by_protocol=True)
                elif by_name:
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
                self._rules = _load(self._rails, self._parser, _Known(target))
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
            return _refuse(Finding(rules.first, Action.DENY), session, "this is too large to be judged by")
        if known is not None:
            return _answer(_with_values(rules, known[0], event), event, session)
        work = _Work(rules, event, session, self._session_parser, by_name=by_name)
        if rules.statements is not None and not self._may_parse(len(event.text), session):
            later: Callable[[], Verdict] = work
            return Hold(_ticket(), "this statement is being parsed", work=later)
        return work()

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
            return _refuse(over, session)
        if not self._looks_at_output:
            return FORWARD
        rules = self._rules
        if isinstance(event, Rows):
            texts = [text for column in range(len(event.columns)) for text in event.texts(column)]
        else:
            texts = event.texts()
        if not texts:
            return FORWARD
        worst: Finding | None = None
        for one in rules.output:
            worst = worse(worst, one.judge(texts))
        if worst is not None and worst.action is Action.DENY:
            return _refuse(worst, session)
        masked: Verdict = FORWARD
        if rules.masker is not None:
            masker = rules.masker
            failed = masker.mask_rows(event) if isinstance(event, Rows) else masker.mask_output(event, texts)
            if failed is not None:
                return _refuse(failed, session)
            if masker.size:
                session.metrics.transformed_bytes += masker.size
                masked = REPLACE
        return masked if worst is None else _warn(worst)

    def _over(self, event: Rows | Output) -> Finding | None:
        most = self._rules.most
        if most is None:
            return None
        rows = event.count if isinstance(event, Rows) else event.rows
        if not rows:
            return None
        if event.exchange != self._counted:
            self._counted = event.exchange
            self._count = 0
        self._count += rows
        if self._count <= most[0]:
            return None
        return Finding(most[1], Action.DENY, f"the answer has more than {most[0]} rows")


class _Work:
    """The judgement of one statement, here or in a thread."""

    def __init__(
        self, rules: Rules, event: Operation, session: SessionView, parser: SessionParser | None, *, by_name: bool
    ) -> None:
        self._rules = rules
        self._event = event
        self._session = session
        self._parser = parser
        self._by_name = by_name

    def __call__(self) -> Verdict:
        text = self._event.text
        finding = judge_text(self._rules, text, self._parser if self._by_name else None)
        if not self._by_name:
            self._rules.judged.put(text, finding)
        return _answer(_with_values(self._rules, finding, self._event), self._event, self._session)


def judge_text(rules: Rules, text: str, parser: SessionParser | None = None) -> Finding | None:
    worst: Finding | None = None
    if rules.input:
        spellings = readings(text.encode("utf-8", "replace"))
        for one in rules.input:
            worst = worse(worst, one.judge(spellings))
    if rules.statements is None or (worst is not None and worst.action is Action.DENY):
        return worst
    return worse(worst, rules.statements.judge(text, parser))


def _with_values(rules: Rules, finding: Finding | None, event: Operation) -> Finding | None:
    """What the bind values add; each of them is judged on its own."""
    if not event.values or not rules.input:
        return finding
    values = [value for value in event.values if value is not None]
    for one in rules.input:
        finding = worse(finding, one.judge(values))
    return finding


def _answer(finding: Finding | None, event: Operation, session: SessionView) -> Verdict:
    """What is only prepared is not warned of nor reviewed: that comes when it is to run."""
    if finding is None or (event.phase is not RUN and finding.action is not Action.DENY):
        return FORWARD
    if finding.action is Action.WARN:
        return _warn(finding)
    if finding.action is Action.REVIEW:
        return Hold(_ticket(), finding.said("held by"), rule=finding.culprit.title)
    return _refuse(finding, session)


def _ticket() -> str:
    return str(next(_tickets))


def _warn(finding: Finding) -> Warn:
    return Warn(
        rule=finding.culprit.title,
        message=finding.said("warning of"),
        hint="It was let through, and is recorded. An administrator can say more about this guard rail.",
    )


def _refuse(finding: Finding, session: SessionView, beginning: str = "blocked by") -> Refuse:
    return Refuse(
        rule=finding.culprit.title,
        message=finding.said(beginning),
        hint=f'If you need this on connection "{session.connection}", ask an administrator to change the guard rail.',
    )
