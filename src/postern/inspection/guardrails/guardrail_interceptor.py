"""Interceptor of guardrails.

An operation is judged by its text. Findings of texts that mean the same in every session are cached for all sessions
under the same rules. A short text is judged at once; a long one, or a batch of many, becomes `Work` that the link waits
for, so that parsing never blocks other sessions. A text that runs a prepared statement by name is judged by what was
prepared in this session, and is not cached. Answers are searched for text and counted by rows.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from functools import partial
from typing import Final

from postern.domain.rules.guardrail import Action, Guardrail
from postern.domain.targets.target_schema import TargetSchema
from postern.inspection.guardrails.counting import SessionRowCounts
from postern.inspection.guardrails.guardrail_findings import Culprit, GuardrailFinding
from postern.inspection.guardrails.guardrail_rules import CompiledRules, judge_text, load, with_values
from postern.inspection.guardrails.guardrail_tasks import JudgeText, read_answer
from postern.inspection.guardrails.guardrail_texts import Masker
from postern.inspection.guardrails.statements import worse
from postern.inspection.sql.sql_parser import Parser, SessionParser
from postern.interception.events import RUN, Event, Operation, Output, Rows
from postern.interception.pipeline import AT_ONCE, BatchNeed, SessionView
from postern.interception.verdicts import FORWARD, REPLACE, Hold, Refuse, Verdict, Warn, Work

# Characters that are searched on the event loop if no rule parses statements.
SEARCHED_AT_ONCE: Final = 256 * 1024

# Keywords have one spelling, but for case. A text without these neither prepares nor runs anything by name.
BY_NAME: Final = re.compile("[pPeE](?i:(?<=p)repare|(?<=e)xecute)")

_MAX_HELD: Final = 10_000  # requests of a session

_tickets = itertools.count(1)


def _batch_need(rails: tuple[Guardrail, ...]) -> BatchNeed:
    """Return the need of the strictest outcome that an input rule can have. Rules that only warn need no batch."""
    outcomes = {str(outcome) for rail in rails for rule in rail.input for outcome in (rule.action, rule.unknown)}
    if Action.REVIEW in outcomes:
        return BatchNeed.REVIEW
    return BatchNeed.DENY if Action.DENY in outcomes else BatchNeed.NONE


def _nothing() -> TargetSchema | None:
    return None


class GuardrailInterceptor:
    """Interceptor of a session. Sessions under the same rules share compiled rules and cached findings.

    `parser` is that of the connection's dialect. `target` returns what is known now about the target's objects.
    `session_parser` follows the names that the session prepares. `access_help` says how users request what is denied,
    in the words of their organisation. Raises Invalid when a rule cannot be loaded; such a session must not start.
    """

    name = "guardrails"

    def __init__(
        self,
        rules: tuple[Guardrail, ...],
        parser: Parser | None = None,
        target: Callable[[], TargetSchema | None] = _nothing,
        session_parser: SessionParser | None = None,
        access_help: str = "",
    ) -> None:
        self._access_help = access_help
        self._told_masks: set[Culprit] = set()  # the client is told of each once
        self._rails = rules
        self._parser = parser
        self._target = target
        self._session_parser = session_parser
        self._known = target()
        self._rules = load(rules, parser, self._known)
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
        self._counts = SessionRowCounts()
        self._held: dict[int, Culprit] = {}  # for which rule, by exchange; results exist of approved ones only

    def see(self, event: Event, session: SessionView) -> Verdict:
        if isinstance(event, Operation):
            if self._rules.most is not None:
                self._counts.track_cursors(event)
            if not self._judges_input:
                return FORWARD
            rules = self._current_rules()
            cached = None if event.truncated else rules.judged.get(event.text)
            # A cached finding never depends on names.
            by_name = cached is None and rules.statements is not None and BY_NAME.search(event.text) is not None
            verdict = self._see_operation(rules, event, session, cached, by_name=by_name)
            # After the verdict, and also for denied statements: a name too many is harmless.
            if self._session_parser is not None and not event.truncated:
                if event.phase is not RUN:
                    self._session_parser.record_statement(event.text, by_protocol=True)
                elif by_name or self._session_parser.matters_later(event.text):
                    self._session_parser.record_statement(event.text)
            return verdict
        if isinstance(event, Rows | Output):
            return self._see_answer(event, session)
        return FORWARD

    # Input

    def _current_rules(self) -> CompiledRules:
        """Return the rules, reloaded if the target's schema has changed."""
        if self._rules.statements is not None:
            target = self._target()
            if target is not self._known:
                self._known = target
                self._rules = load(self._rails, self._parser, target)
        return self._rules

    def _see_operation(
        self,
        rules: CompiledRules,
        event: Operation,
        session: SessionView,
        cached: tuple[GuardrailFinding | None] | None,
        *,
        by_name: bool,
    ) -> Verdict:
        """Return the verdict on an operation.

        `known` is the cached finding for the text. `by_name`: the text means something different in each session.
        """
        if event.truncated:
            assert rules.first is not None
            large = GuardrailFinding(rules.first, Action.DENY)
            return _refuse(large, self._help(session), "this is too large to be evaluated by")
        if cached is not None:
            finding = with_values(rules, cached[0], event.values)
            return FORWARD if finding is None else self._decide(finding, event, session)
        size = len(event.text)
        if by_name and self._session_parser is not None:
            size += self._session_parser.weight
        at_once = AT_ONCE if rules.statements is not None else SEARCHED_AT_ONCE
        if size <= at_once and (rules.statements is None or session.may_parse(size)):
            return self._judge(rules, event, session, None, by_name=by_name)
        if size <= at_once:
            judge = partial(self._judge, rules, event, session, by_name=by_name)
            return Hold(_ticket(), "this statement is being parsed", work=Work(None, judge))
        parser = self._session_parser if by_name else None
        task: Callable[[], object] = JudgeText(self._rails, self._parser, rules.target, event.text, parser)
        conclude = partial(self._conclude_work, rules, event, session, by_name=by_name)
        return Hold(_ticket(), "this statement is being parsed", work=Work(task, conclude))

    def _judge(
        self, rules: CompiledRules, event: Operation, session: SessionView, _: object, *, by_name: bool
    ) -> Verdict:
        finding = judge_text(rules, event.text, self._session_parser if by_name else None)
        return self._conclude(rules, event, session, finding, by_name=by_name)

    def _conclude_work(
        self, rules: CompiledRules, event: Operation, session: SessionView, result: object, *, by_name: bool
    ) -> Verdict:
        return self._conclude(rules, event, session, read_answer(rules, result), by_name=by_name)

    def _conclude(
        self,
        rules: CompiledRules,
        event: Operation,
        session: SessionView,
        finding: GuardrailFinding | None,
        *,
        by_name: bool,
    ) -> Verdict:
        # Searching a text again takes less time than remembering it; prepared ones come back.
        is_searched_again = rules.statements is None and event.phase is RUN and not event.values
        if not (by_name or is_searched_again):
            rules.judged.put(event.text, finding)
        complete_finding = with_values(rules, finding, event.values)
        return FORWARD if complete_finding is None else self._decide(complete_finding, event, session)

    def _decide(self, finding: GuardrailFinding, event: Operation, session: SessionView) -> Verdict:
        """Turn a finding into a verdict. An approval is valid for all requests that read one result."""
        if finding.action is Action.REVIEW and event.phase is RUN:
            if event.continues and self._held.get(event.continues) == finding.culprit:
                return FORWARD
            self._held[event.exchange] = finding.culprit
            if len(self._held) > _MAX_HELD:
                del self._held[next(iter(self._held))]
        return _decide(finding, event, self._help(session))

    def _help(self, session: SessionView) -> str:
        """Return how to request what was denied."""
        ask = self._access_help or "ask an administrator to change the guardrail."
        return f'If you need this on connection "{session.connection}": {ask}'

    # Output

    def _see_answer(self, event: Rows | Output, session: SessionView) -> Verdict:
        excess = self._find_excess_rows(event)
        if excess is not None:
            return _refuse(excess, self._help(session))
        if not self._looks_at_output:
            return FORWARD
        rules = self._rules
        if isinstance(event, Output) and event.unreadable:
            return self._refuse_unreadable(event, session)
        if isinstance(event, Rows):
            texts = [text for column in range(len(event.columns)) for text in event.texts(column)]
        else:
            texts = event.texts()
        if not texts:
            return FORWARD
        seen = texts if isinstance(event, Rows) else [*texts, *event.rendered_texts()]
        worst: GuardrailFinding | None = None
        for rule_set in rules.output:
            worst = worse(worst, rule_set.judge(seen))
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
                session.marks += masker.marks
                masked = self._announce_masks(masker, session)
        return masked if worst is None else _warn(worst, self._help(session))

    def _refuse_unreadable(self, event: Output, session: SessionView) -> Verdict:
        """Apply the most severe rule to output that cannot be searched."""
        session.metrics.not_inspected += 1
        rules = self._rules
        denying = [rule_set.first for rule_set in rules.output if rule_set.action is Action.DENY]
        if rules.masker is not None:
            denying.append(rules.masker.first)
        if not denying:
            culprit = rules.output[0].first
            return _warn(GuardrailFinding(culprit, Action.WARN, f"{event.unreadable} cannot be searched"), "")
        finding = GuardrailFinding(denying[0], Action.DENY, f"{event.unreadable} cannot be searched")
        return _refuse(finding, self._help(session))

    def _announce_masks(self, masker: Masker, session: SessionView) -> Verdict:
        """Tell the client once about each rule. The mark in the answer names the rule each time."""
        new_culprits = [culprit for culprit in masker.culprits if culprit not in self._told_masks]
        if not new_culprits:
            return REPLACE
        self._told_masks.add(new_culprits[0])
        return Warn(
            rule=new_culprits[0].title,
            message=GuardrailFinding(new_culprits[0], Action.MASK).describe("masked by"),
            hint=f"{self._help(session)} This notice appears once.",
            is_violation=False,
        )

    def _find_excess_rows(self, event: Rows | Output) -> GuardrailFinding | None:
        most = self._rules.most
        if most is None:
            return None
        rows = event.counted if isinstance(event, Rows) else event.rows
        if not rows:
            return None
        if self._counts.add(event, rows) <= most[0]:
            return None
        return GuardrailFinding(most[1], Action.DENY, f"the result has more than {most[0]} rows")


def _decide(finding: GuardrailFinding, event: Operation, access_help: str) -> Verdict:
    """Turn a finding into a verdict. Warnings and reviews wait until a prepared statement runs."""
    if event.phase is not RUN and finding.action is not Action.DENY:
        return FORWARD
    if finding.action is Action.WARN:
        return _warn(finding, access_help)
    if finding.action is Action.REVIEW:
        return Hold(_ticket(), finding.describe("held by"), rule=finding.culprit.title)
    return _refuse(finding, access_help)


def _ticket() -> str:
    return str(next(_tickets))


def _warn(finding: GuardrailFinding, access_help: str) -> Warn:
    return Warn(
        rule=finding.culprit.title,
        message=finding.describe("warning of"),
        hint=f"It was not blocked, and is recorded. {access_help}",
    )


def _refuse(finding: GuardrailFinding, access_help: str, beginning: str = "blocked by") -> Refuse:
    return Refuse(rule=finding.culprit.title, message=finding.describe(beginning), hint=access_help)
