"""The interceptor that masks answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from postern.domain.masking import InfoType, MaskingRule, Strategy, Strictness
from postern.inspection.masking.columns import STRENGTH, ColumnRule, Columns, Decided, Doubt, by_strength
from postern.inspection.masking.copied import is_plain_copy, mask_columns, without_quoted
from postern.inspection.masking.detectors import THRESHOLD, Detectors
from postern.inspection.masking.json_documents import mask_documents
from postern.inspection.masking.lines import mask_lines
from postern.inspection.masking.origins import Origins, Sources
from postern.inspection.masking.scalars import mask_addresses, mask_numbers
from postern.inspection.masking.strategies import Substitutes
from postern.inspection.masking.substituting import Search, search_of
from postern.inspection.masking.texts import Hits, mask_texts
from postern.interception.events import RUN, Channel, Column, Event, Kind, Note, Operation, Output, Rows
from postern.interception.pipeline import SessionView
from postern.interception.verdicts import FORWARD, REPLACE, Refuse, Verdict

_Mask = Callable[[Detectors, Sequence[bytes], Hits], list[bytes] | None]

_MASKS: dict[Kind, _Mask] = {
    Kind.TEXT: mask_texts,
    Kind.JSON: mask_documents,
    Kind.NUMBER: mask_numbers,
    Kind.ADDRESS: mask_addresses,
}
_SCALAR_KINDS = frozenset({Kind.NUMBER, Kind.ADDRESS})
_STATEMENTS = 1024  # requests under way whose text is kept
_STATEMENTS_LENGTH = 4 * 1024 * 1024  # … characters of them together, but for the last one
_PLANS = 256
_NOTES = 100  # that wait to be recorded

NOT_INSPECTED = "an answer was passed on without having been inspected"


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is done with each column of a result: a rule has all of it, or values are looked for in it."""

    decided: Decided
    searches: tuple[tuple[tuple[Search, Detectors], ...], ...]


class Masking:
    """Masks rows and any other answer; counts in the session's metrics, by type of information and by name of a rule
    about columns.

    `types` are replaced besides what `rules` say. `key` is what they hash by. `origins` tells where columns come from.
    `transformed_bytes` counts the bytes of the values that were replaced.
    """

    name = "masking"

    def __init__(
        self,
        types: frozenset[InfoType],
        rules: Iterable[MaskingRule] = (),
        key: bytes = b"",
        origins: Origins | None = None,
        access_help: str = "",
    ) -> None:
        self._access_help = access_help
        ordered = sorted(rules, key=by_strength)
        made = {strategy: Substitutes(strategy, key) for strategy in {rule.strategy for rule in ordered}}
        searches = [search_of(rule, made[rule.strategy]) for rule in ordered if rule.finds]
        if types:
            searches.append(Search(types, (), THRESHOLD, Substitutes(Strategy.REPLACE, b"")))
            searches.sort(key=lambda search: STRENGTH[search.strategy])
        self._searches = tuple(searches)
        self._texts = tuple((search, search.detectors()) for search in searches)
        columns = [ColumnRule(rule, made[rule.strategy]) for rule in ordered if rule.columns]
        self._columns = Columns(columns, origins) if columns else None
        self._is_strict = bool(types) or any(rule.strictness is Strictness.STRICT for rule in ordered)
        wants: set[type[Event]] = {Rows, Output} if searches or columns else set()
        if self._columns is not None and origins is not None:
            wants.add(Operation)
        self.wants: frozenset[type[Event]] = frozenset(wants)
        self._statements: dict[int, str] = {}
        self._length = 0  # of them all
        self._plans: dict[tuple[tuple[Column, ...], Sources | None], _Plan] = {}
        self._last: tuple[int, tuple[Column, ...], _Plan] | None = None
        self._noted = 0  # the exchange of the last marker

    def see(self, event: Event, session: SessionView) -> Verdict:
        if isinstance(event, Operation):
            self._asked(event)
            return FORWARD
        hits = Hits()
        try:
            refusal = self._see(event, hits, session)
        except Exception as error:
            session.metrics.not_inspected += 1
            if self._is_strict or not isinstance(event, (Rows, Output)):
                raise
            self._note(event.exchange, type(error).__name__, session)
            refusal = None
        if refusal is not None:
            return refusal
        if not hits.counts:
            return FORWARD
        for kind, count in hits.counts.items():
            session.metrics.count(str(kind), count)
        session.metrics.transformed_bytes += hits.size
        return REPLACE

    def _asked(self, operation: Operation) -> None:
        if self._columns is not None:
            self._columns.asked(operation.text)
        if operation.phase is RUN:
            if operation.exchange in self._statements:
                self._forget(operation.exchange)
            while self._statements and (
                len(self._statements) >= _STATEMENTS or self._length + len(operation.text) > _STATEMENTS_LENGTH
            ):
                self._forget(next(iter(self._statements)))
            self._statements[operation.exchange] = operation.text
            self._length += len(operation.text)

    def _forget(self, exchange: int) -> None:
        self._length -= len(self._statements.pop(exchange))

    def _answered(self, exchange: int) -> str | None:
        """The statement that this answers. Those before it have been answered: they are not needed any more."""
        while (first := next(iter(self._statements), exchange)) < exchange:
            self._forget(first)
        return self._statements.get(exchange)

    def _see(self, event: Event, hits: Hits, session: SessionView) -> Refuse | None:
        if isinstance(event, Rows):
            plan = self._plan(event)
            refusal = self._doubts(plan.decided, event.exchange, session)
            if refusal is None:
                self._mask_rows(plan, event, hits)
            return refusal
        if not isinstance(event, Output):
            return None
        texts = event.texts()
        if not texts:
            return None
        masked: list[bytes] | None = None
        if self._columns is not None:
            if event.channel is Channel.COPY:
                refusal, masked = self._copied(self._columns, event.exchange, texts, hits, session)
                if refusal is not None:
                    return refusal
            elif event.channel in (Channel.ERROR, Channel.NOTICE):
                masked = _unquoted(texts, hits)
        found = self._mask_texts(event.channel, texts if masked is None else masked, hits)
        masked = masked if found is None else found
        if masked is not None:
            event.replace(masked)
        return None

    def _mask_texts(self, channel: Channel, texts: list[bytes], hits: Hits) -> list[bytes] | None:
        mask = mask_lines if channel is Channel.COPY else mask_texts
        masked: list[bytes] | None = None
        for _, detectors in self._texts:
            found = mask(detectors, texts if masked is None else masked, hits)
            masked = masked if found is None else found
        return masked

    def _plan(self, rows: Rows) -> _Plan:
        last = self._last
        if last is not None and last[0] == rows.exchange and last[1] is rows.columns:
            return last[2]
        sources = None
        if self._columns is not None:
            sources = self._columns.sources(self._answered(rows.exchange), rows.columns)
        key = (rows.columns, sources)
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            plan = self._plans[key] = self._planned(rows.columns, sources)
        self._last = (rows.exchange, rows.columns, plan)
        return plan

    def _planned(self, columns: tuple[Column, ...], sources: Sources | None) -> _Plan:
        decided = Decided((None,) * len(columns))
        if self._columns is not None:
            decided = self._columns.decide(columns, sources)
        searches = tuple(
            () if rule is not None else tuple((search, search.detectors(column.name)) for search in self._searches)
            for column, rule in zip(columns, decided.rules, strict=True)
        )
        return _Plan(decided, searches)

    def _mask_rows(self, plan: _Plan, rows: Rows, hits: Hits) -> None:
        for index, column in enumerate(rows.columns):
            rule = plan.decided.rules[index]
            if rule is not None:
                hits.add(rule.name, *rows.change(index, rule.substitutes.change))
                continue
            mask = _MASKS.get(column.kind)
            if mask is None:
                continue
            for search, detectors in plan.searches[index]:
                if search.strategy is Strategy.NULL or (
                    column.kind in _SCALAR_KINDS and search.strategy is not Strategy.REPLACE
                ):
                    if mask(detectors, rows.texts(index), Hits()) is not None:
                        rows.change(index, search.change(detectors, hits))
                    continue
                texts = rows.texts(index)
                masked = mask(detectors, texts, hits) if texts else None
                if masked is not None:
                    rows.replace(index, masked)

    def _copied(
        self, columns: Columns, exchange: int, lines: list[bytes], hits: Hits, session: SessionView
    ) -> tuple[Refuse | None, list[bytes] | None]:
        statement = self._answered(exchange)
        decided = columns.decide_copy(columns.sources(statement, ()))
        refusal = self._doubts(decided, exchange, session)
        if refusal is not None or not any(decided.rules):
            return refusal, None
        found = mask_columns(lines, decided.rules) if is_plain_copy(statement) else None
        if found is None:
            doubts = tuple(Doubt(rule, "") for rule in decided.rules if rule is not None)
            return self._doubts(Decided((), doubts), exchange, session), None
        masked, counts, size = found
        for rule, count in zip(decided.rules, counts, strict=True):
            if rule is not None:
                hits.add(rule.name, count, 0)
        hits.size += size
        return None, masked

    def _doubts(self, decided: Decided, exchange: int, session: SessionView) -> Refuse | None:
        """Refuses, or leaves a marker, where a rule cannot tell whether it speaks of a column."""
        if not decided.doubts:
            return None
        session.metrics.not_inspected += 1
        doubt = decided.refused
        if doubt is None:
            self._note(exchange, f"masking rule {decided.doubts[0].rule.name!r}", session)
            return None
        what = f"column {doubt.column!r}" if doubt.column else "this copied data"
        return Refuse(
            self.name,
            f"blocked by masking rule {doubt.rule.name!r}: where {what} comes from cannot be known, "
            "so it may hold what the rule hides",
            "Ask for columns of tables by their names, or ask an administrator to add types to look for to the rule, "
            f"or to make it best_effort. {self._access_help}".rstrip(),
        )

    def _note(self, exchange: int, why: str, session: SessionView) -> None:
        """Once for each request."""
        if exchange != self._noted and len(session.notes) < _NOTES:
            self._noted = exchange
            session.notes.append(Note(NOT_INSPECTED, {"why": why, "exchange": str(exchange)}))


def _unquoted(texts: list[bytes], hits: Hits) -> list[bytes] | None:
    masked = without_quoted(texts)
    changed = [(old, new) for old, new in zip(texts, masked, strict=True) if old != new]
    if not changed:
        return None
    hits.add("MESSAGE", len(changed), sum(len(old) for old, _ in changed))
    return masked
