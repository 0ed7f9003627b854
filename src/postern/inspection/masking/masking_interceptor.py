"""Interceptor that masks answers.

For each request it remembers the statements that can have produced the answer. When rows arrive, lineage tells the
origin of each column, and the rules about columns turn this into a plan: replace the whole column, or search values in
it. Plans are cached, since most answers of a session repeat. If a strict rule cannot know whether it matches a column,
the answer is denied before any of it is forwarded. Messages and other output have no columns; what they quote is
withheld (`error_messages`).
"""

from __future__ import annotations

import contextlib
import itertools
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import partial

from postern.domain.rules.masking import InfoType, MaskingRule, Strategy, Strictness
from postern.domain.sessions.results import Mask
from postern.domain.targets.target_schema import TargetSchema
from postern.errors import ProtocolViolation
from postern.inspection.lineage.unread import UnreadText
from postern.inspection.masked_cells import mark_cells
from postern.inspection.masking.answered_statements import AnsweredStatements
from postern.inspection.masking.copied_lines import mask_lines
from postern.inspection.masking.copy_formats import type_of
from postern.inspection.masking.detector import SEPARATOR
from postern.inspection.masking.detectors import THRESHOLD, Detectors
from postern.inspection.masking.error_messages import (
    MASK,
    is_harmless_setting,
    make_known_check,
    nothing_known,
    withhold_values,
)
from postern.inspection.masking.joined_texts import Hits, mask_texts
from postern.inspection.masking.json_documents import mask_documents
from postern.inspection.masking.masking_columns import (
    STRENGTH,
    ColumnRule,
    ColumnRules,
    Decided,
    Doubt,
    by_strength,
)
from postern.inspection.masking.masking_plans import MASKS, MaskingPlan, MaskTexts, change_of, make_plan
from postern.inspection.masking.origins import Origins, Sources
from postern.inspection.masking.statement_facts import NO_FACTS, StatementFacts
from postern.inspection.masking.strategies import Substitutes
from postern.inspection.masking.substituting import ValueSearch, search_of
from postern.interception.events import (
    RUN,
    Channel,
    Column,
    Event,
    Heading,
    Mark,
    Note,
    Operation,
    Output,
    Rows,
    Summary,
    TextKind,
)
from postern.interception.pipeline import AT_ONCE, BatchNeed, SessionView
from postern.interception.verdicts import FORWARD, REPLACE, Hold, Refuse, Verdict, Work

_tickets = itertools.count(1)

_SCALAR_KINDS = frozenset({TextKind.NUMBER, TextKind.ADDRESS})
_PLANS = 256
_NOTES = 100  # waiting to be recorded
_MIXED = 512  # bytes of masked texts of a column that are searched again, to tell several types apart

# Messages lose values that rules about columns hide, whichever rule it is.
_MESSAGE = "MESSAGE"
_MESSAGE_MASK = Mask("", Strategy.REPLACE.value, (_MESSAGE,))

# Query whose lineage is the origin of the number that a session stores for LAST_INSERT_ID().
_LAST_ID_QUERY = "select last_insert_id()"
_LAST_ID = (Column("last_insert_id()", TextKind.NUMBER),)

NOT_INSPECTED = "a result was forwarded without inspection"


class Masking:
    """Masks rows and all other output. Counts in the session's metrics, by information type and by name of column
    rules.

    `types` are replaced in addition to `rules`; `key` is for hashes. `origins` returns the lineage of columns, `facts`
    other facts about answers. `transformed_bytes` counts the bytes of replaced values.
    """

    name = "masking"

    def __init__(
        self,
        types: frozenset[InfoType],
        rules: Iterable[MaskingRule] = (),
        key: bytes = b"",
        origins: Origins | None = None,
        access_help: str = "",
        facts: StatementFacts = NO_FACTS,
    ) -> None:
        self._facts = facts
        self._access_help = access_help
        ordered = sorted(rules, key=by_strength)
        substitutes = {strategy: Substitutes(strategy, key) for strategy in {rule.strategy for rule in ordered}}
        searches = [search_of(rule, substitutes[rule.strategy]) for rule in ordered if rule.finds]
        if types:
            searches.append(ValueSearch(types, (), THRESHOLD, Substitutes(Strategy.REPLACE, b"")))
            searches.sort(key=lambda search: STRENGTH[search.strategy])
        self._searches = tuple(searches)
        self._texts = tuple((search, search.detectors()) for search in searches)
        columns = [ColumnRule(rule, substitutes[rule.strategy]) for rule in ordered if rule.columns]
        self._columns = ColumnRules(columns, origins) if columns else None
        self._is_strict = bool(types) or any(rule.strictness is Strictness.STRICT for rule in ordered)
        wants: set[type[Event]] = {Rows, Output} if searches or columns else set()
        if self._columns is not None:
            wants |= {Heading, Summary}
            if origins is not None:
                wants.add(Operation)
        self.wants: frozenset[type[Event]] = frozenset(wants)
        self.batch_need = BatchNeed.NONE
        self._statements = AnsweredStatements()
        self._plans: dict[tuple[tuple[Column, ...], Sources | None], MaskingPlan] = {}
        self._last: tuple[int, tuple[Column, ...], Sources | None, MaskingPlan] | None = None
        self._noted = 0  # exchange of the last marker

    def see(self, event: Event, session: SessionView) -> Verdict:
        if isinstance(event, Operation):
            return self._see_operation(event, session)
        hits = Hits()
        earlier_marks = len(session.marks)
        try:
            refusal = self._see(event, hits, session)
        except Exception as error:
            del session.marks[earlier_marks:]
            session.metrics.not_inspected += 1
            if self._is_strict or not isinstance(event, (Rows, Output)):
                raise
            self._add_note(event.exchange, type(error).__name__, session)
            refusal = None
        if refusal is not None:
            return refusal
        if not hits.counts:
            return FORWARD
        for kind, count in hits.counts.items():
            session.metrics.count(str(kind), count)
        session.metrics.transformed_bytes += hits.size
        return REPLACE

    def _see_operation(self, operation: Operation, session: SessionView) -> Verdict:
        while (unread := self._find_unread(operation)) is not None:
            if unread.size <= AT_ONCE and session.may_parse(unread.size):
                unread.read()
                continue
            conclude = partial(self._continue, operation, session, unread)
            work = Work(unread.task if unread.size > AT_ONCE else None, conclude)
            return Hold(f"masking {next(_tickets)}", "this statement is being parsed", work=work)
        self._record_operation(operation)
        return FORWARD

    def _find_unread(self, operation: Operation) -> UnreadText | None:
        if self._columns is None:
            return None
        unread = self._columns.unread(operation.text)
        return self._columns.unread(operation.result_of) if unread is None and operation.result_of else unread

    def _continue(self, operation: Operation, session: SessionView, unread: UnreadText, result: object) -> Verdict:
        """Continue after one part was resolved: a text that it executes can still be unresolved."""
        if unread.size > AT_ONCE:
            unread.keep(result)
        else:
            unread.read()
        return self._see_operation(operation, session)

    def _record_operation(self, operation: Operation) -> None:
        if self._columns is not None:
            self._columns.record_statement(operation.text)
        if operation.phase is RUN:
            self._statements.record(operation)

    def _see(self, event: Event, hits: Hits, session: SessionView) -> Refuse | None:
        if isinstance(event, Heading) and event.prepared:
            self._describe_prepared(event, session.schema)
            return None
        if isinstance(event, Rows):
            plan = self._plan(event, session.schema)
            refusal = self._handle_doubts(plan.decided, event.exchange, session)
            if refusal is None and self._columns is not None and self._columns.judges_shape:
                doubts = self._columns.find_shape_doubts(self._statements.of_rows(event))
                refusal = self._handle_doubts(Decided((), doubts), event.exchange, session)
            if refusal is not None:
                return refusal
            if isinstance(event, Heading):
                self._describe(event, plan, self._statements.of_rows(event))
            else:
                self._mask_rows(plan, event, hits, session.marks)
            return None
        if isinstance(event, Summary):
            self._summarise(event)
            return None
        if not isinstance(event, Output):
            return None
        if event.unreadable:
            return self._handle_unreadable(event, session)
        # First as a terminal displays it: a search in raw bytes misses values that escape sequences interrupt.
        displayed = event.rendered_texts()
        search: MaskTexts = mask_lines if event.channel is Channel.COPY else mask_texts
        if displayed and (replacements := self._mask_texts(search, displayed, hits, session.marks)) is not None:
            event.replace_rendered_texts(replacements)
        if self._columns is not None and event.columns:
            refusal = self._mask_values(self._columns, event, hits, session)
            if refusal is not None:
                return refusal
        texts = event.texts()
        if not texts:
            return None
        masked: list[bytes] | None = None
        if self._columns is not None:
            if event.channel is Channel.COPY:
                refusal = self._mask_copy(self._columns, event, hits, session)
                if refusal is not None:
                    return refusal
                if not self._texts:
                    return None
                texts = event.texts()
            elif event.has_columns:
                refusal = None if event.columns else self._handle_doubts(self._columns.unsure, event.exchange, session)
                if refusal is not None:
                    return refusal
            else:
                refusal, masked = self._mask_message(self._columns, event, texts, hits, session)
                if refusal is not None:
                    return refusal
        if event.text_kind is TextKind.JSON:
            search = mask_documents
        replacements = self._mask_texts(search, texts if masked is None else masked, hits, session.marks)
        masked = masked if replacements is None else replacements
        if masked is not None:
            event.replace(masked)
        return None

    def _describe(self, heading: Heading, plan: MaskingPlan, statements: Sequence[str]) -> None:
        """Describe computed columns as text, if their description can depend on values."""
        if plan.computed and self._facts.varies(statements):
            for place in plan.computed:
                heading.describe_as_text(place)

    def _describe_prepared(self, heading: Heading, schema: TargetSchema | None) -> None:
        """Describe a statement that has not run. It is not denied: the answer to it can be."""
        if self._columns is None:
            return
        statements = (heading.prepared,)
        sources = self._columns.sources(statements, heading.columns)
        plan = self._make_plan(heading.columns, sources, schema)
        self._describe(heading, plan, statements)
        if self._columns.unsure.refused is None:
            return
        for place, chosen in enumerate(plan.decided.chosen):
            if chosen is None and (sources is None or sources[place] is None):
                heading.describe_as_text(place, with_name=False)

    def _summarise(self, summary: Summary) -> None:
        """Hide warnings, which quote values (`1 / (salary - 1)`), and numbers that LAST_INSERT_ID(value) reports as
        generated.
        """
        summary.hide_warnings()
        columns = self._columns
        if columns is None or not summary.insert_id:
            return
        statements = self._statements.of_answer(summary.exchange)
        if statements and not self._facts.chooses_insert_id(statements):
            return
        decided = columns.decide(_LAST_ID, columns.sources((_LAST_ID_QUERY,), _LAST_ID))
        if any(decided.chosen) or decided.doubts:
            summary.hide_insert_id()

    def _mask_texts(self, mask: MaskTexts, texts: list[bytes], hits: Hits, marks: list[Mark]) -> list[bytes] | None:
        masked: list[bytes] | None = None
        for search, detectors in self._texts:
            found = Hits()
            replacements = mask(detectors, texts if masked is None else masked, found)
            masked = masked if replacements is None else replacements
            if found.counts:
                hits.merge(found)
                marks.append(Mark(search.mask_of(found.counts), count=sum(found.counts.values())))
        return masked

    def _plan(self, rows: Rows, schema: TargetSchema | None) -> MaskingPlan:
        last = self._last
        is_same = last is not None and last[1] is rows.columns
        if last is not None and is_same and (last[0] == rows.exchange or self._columns is None):
            return last[3]
        sources = None
        if self._columns is not None and rows.columns:  # without columns, it would be asked about those of a copy
            sources = self._columns.sources(self._statements.of_rows(rows), rows.columns)
        if last is not None and is_same and last[2] == sources:  # the same columns and sources: no hashing
            self._last = (rows.exchange, rows.columns, sources, last[3])
            return last[3]
        key = (rows.columns, sources)
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            plan = self._plans[key] = self._make_plan(rows.columns, sources, schema)
        self._last = (rows.exchange, rows.columns, sources, plan)
        return plan

    def _make_plan(
        self, columns: tuple[Column, ...], sources: Sources | None, schema: TargetSchema | None
    ) -> MaskingPlan:
        decided = Decided((None,) * len(columns))
        if self._columns is not None:
            decided = self._columns.decide(columns, sources)
        return make_plan(columns, sources, schema, decided, self._searches)

    def _mask_rows(self, plan: MaskingPlan, rows: Rows, hits: Hits, marks: list[Mark]) -> None:
        marks += plan.marks
        rows.expect(plan.touched)
        found = Hits()  # of one column and rule
        quiet = plan.quiet.find(rows)
        for index, column in enumerate(rows.columns):
            if index in quiet:
                continue
            chosen = plan.decided.chosen[index]
            change = plan.changes[index]
            if chosen is not None and change is not None:
                hits.add(chosen.rule.name, *rows.change(index, change))
                continue
            mask = MASKS.get(column.kind)
            if mask is None:
                continue
            for search, detectors in plan.searches[index]:
                texts = rows.texts(index)
                masked = mask(detectors, texts, found) if texts else None
                if masked is None:
                    continue
                if search.strategy is Strategy.NULL or (
                    column.kind in _SCALAR_KINDS and search.strategy is not Strategy.REPLACE
                ):
                    found.clear()
                    rows.change(index, search.change(detectors, found))
                else:
                    rows.replace(index, masked)
                hits.merge(found)
                marks += mark_cells(rows, index, _masks_of(search, detectors, texts, masked, found))
                found.clear()

    def _mask_values(self, columns: ColumnRules, event: Output, hits: Hits, session: SessionView) -> Refuse | None:
        """Mask single values by rules about columns, also NULL. Returns None if they can pass."""
        described = event.columns
        sources = columns.sources(self._statements.of_answer(event.exchange), described)
        decided = columns.decide(described, sources)
        refusal = self._handle_doubts(decided, event.exchange, session)
        if refusal is not None:
            return refusal
        for place, choice in enumerate(decided.chosen):
            if choice is not None:
                of = None if sources is None else sources[place]
                hits.add(choice.rule.name, 1, event.change_value(place, change_of(choice, of, session.schema)))
                session.marks.append(Mark(choice.rule.mask, count=1))
        return None

    def _mask_copy(self, columns: ColumnRules, event: Output, hits: Hits, session: SessionView) -> Refuse | None:
        """Mask copied data by rules about columns. Returns None if it can pass."""
        statements = self._statements.of_answer(event.exchange)
        sources = columns.sources(statements, ())
        decided = columns.decide_copy(sources)
        refusal = self._handle_doubts(decided, event.exchange, session)
        if refusal is not None or sources is None or not any(decided.chosen):
            return refusal
        form = self._facts.copy_format(statements[0]) if len(statements) == 1 else None
        if form is not None:
            schema = session.schema
            changes = [
                None if choice is None else (type_of(of, schema), change_of(choice, of, schema))
                for choice, of in zip(decided.chosen, sources, strict=True)
            ]
            with contextlib.suppress(ValueError, ProtocolViolation):
                for choice, counts in zip(decided.chosen, event.change(form, changes), strict=True):
                    if choice is not None:
                        hits.add(choice.rule.name, *counts)
                        session.marks.append(Mark(choice.rule.mask, count=event.rows))
                return None
        doubts = tuple(Doubt(choice.rule, "") for choice in decided.chosen if choice is not None)
        return self._handle_doubts(Decided((), doubts), event.exchange, session)

    def _mask_message(
        self, columns: ColumnRules, event: Output, texts: list[bytes], hits: Hits, session: SessionView
    ) -> tuple[Refuse | None, list[bytes] | None]:
        """Mask output with no known source column: messages, settings, notifications."""
        channel = event.channel
        statements = self._statements.of_answer(event.exchange)
        statement = "\n".join(statements)
        labels = event.labels
        parts = dict(zip(labels, texts, strict=True)) if labels else {}
        trusted = self._facts.quotes_no_values(parts, statements)
        if trusted:
            is_known = make_known_check(statement, session.schema, self._facts.phrases)
        else:  # a constraint error names tables, and quotes values in its detail only
            is_known = make_known_check("", session.schema) if "constraint" in parts else nothing_known
        masked: list[bytes] | None = None
        if channel in (Channel.ERROR, Channel.NOTICE):
            strict = columns.unsure.refused is not None
            is_error = channel is Channel.ERROR
            masked = withhold_values(
                texts,
                labels,
                is_known,
                strict=strict,
                is_error=is_error,
                code=self._facts.message_code,
                quotes_values=not trusted,
            )
            if strict and self._facts.is_in_own_words(texts, labels, statements):
                masked = self._facts.replace_own_words(labels, is_error=is_error)
        elif channel is Channel.PARAMETER:
            if not is_harmless_setting("".join(labels), texts[0], is_known, sets=self._facts.only_sets(statements)):
                masked = [MASK]
        elif channel is Channel.FUNCTION or (channel is Channel.NOTIFICATION and texts[1:] != [b""]):
            refusal = self._handle_doubts(columns.unsure, event.exchange, session)
            if refusal is None or channel is Channel.FUNCTION:
                return refusal, None
            masked = [*texts[:1], MASK]
        changed = [old for old, new in zip(texts, masked or texts, strict=True) if old != new]
        if not changed:
            return None, None
        hits.add(_MESSAGE, len(changed), sum(map(len, changed)))
        session.marks.append(Mark(_MESSAGE_MASK, count=len(changed)))
        return None, masked

    def _handle_unreadable(self, event: Output, session: SessionView) -> Refuse | None:
        """Deny output that cannot be read, or leave a marker if no rule is strict."""
        session.metrics.not_inspected += 1
        if not self._is_strict:
            self._add_note(event.exchange, event.unreadable, session)
            return None
        return Refuse(
            self.name,
            f"blocked by masking: this is {event.unreadable}, in which values cannot be found",
            "Ask an administrator to set the strictness of the connection's masking rules to best_effort. "
            f"{self._access_help}".rstrip(),
        )

    def _handle_doubts(self, decided: Decided, exchange: int, session: SessionView) -> Refuse | None:
        """Deny the answer, or leave a marker, if a rule cannot know whether it matches a column."""
        if not decided.doubts:
            return None
        session.metrics.not_inspected += 1
        doubt = decided.refused
        if doubt is None:
            self._add_note(exchange, f"masking rule {decided.doubts[0].rule.name!r}", session)
            return None
        is_named = doubt.column and self._facts.spells_names(
            self._statements.of_answer(exchange)
        )  # else the name can be a value
        what = f"column {doubt.column!r}" if is_named else "this data"
        return Refuse(
            self.name,
            f"blocked by masking rule {doubt.rule.name!r}: the origin of {what} cannot be determined, "
            "so it can contain what the rule hides",
            f"{self._facts.help_with_origins()}, or ask an administrator to set the rule's strictness to best_effort. "
            f"{self._access_help}".rstrip(),
        )

    def _add_note(self, exchange: int, why: str, session: SessionView) -> None:
        """Add a marker to the recording, once per request."""
        if exchange != self._noted and len(session.notes) < _NOTES:
            self._noted = exchange
            session.notes.append(Note(NOT_INSPECTED, {"why": why, "exchange": str(exchange)}))


def _masks_of(
    search: ValueSearch, detectors: Detectors, texts: Sequence[bytes], masked: Sequence[bytes], found: Hits
) -> list[Mask]:
    """Return the masks of the changed texts, in order; or one mask, if all have the same, or they are long."""
    if len(found.counts) == 1:
        return [search.mask_of(found.counts)]
    changed = [old for old, new in zip(texts, masked, strict=True) if old != new]
    joined = SEPARATOR.join(changed)
    if len(joined) > _MIXED:
        return [search.mask_of(found.counts)]
    starts = list(itertools.accumulate((len(text) + 1 for text in changed), initial=0))
    types: list[set[str]] = [set() for _ in changed]
    for match in detectors.find(joined):
        types[bisect_right(starts, match.start) - 1].add(match.type)
    return [search.mask_of(each or found.counts) for each in types]
