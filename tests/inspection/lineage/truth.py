"""The reference for lineage: change each table column and see which columns of the answer change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from postern.domain.targets.target_schema import ColumnRef, Origin, TargetSchema
from postern.interception.events import Column

Case = Sequence[str]  # the statements of one session, of which the last one's answer counts
Group = frozenset[ColumnRef]  # columns that change together
Sources = Sequence[frozenset[ColumnRef] | None]


@dataclass(frozen=True)
class Answer:
    """`columns` as the gateway sees them; `values` column by column."""

    columns: tuple[Column, ...]
    values: tuple[tuple[object, ...], ...]


@dataclass(frozen=True)
class Truth:
    """`influences` has, for each column of the answer, the groups of columns that it depends on."""

    answer: Answer
    influences: tuple[frozenset[Group], ...]


class World:
    """A database in which every column holds a unique value."""

    schema: TargetSchema

    def changes(self) -> Iterable[tuple[Group, AbstractContextManager[None]]]:
        """Yield each group of columns with a context manager that changes its values."""
        raise NotImplementedError

    def run(self, case: Case) -> Answer | str:
        """In a session of its own whose changes are taken back; a case that fails is answered with the reason."""
        raise NotImplementedError

    def truths(self, cases: Sequence[Case]) -> list[Truth | str]:
        answers = [self.run(case) for case in cases]
        found: list[set[tuple[int, Group]]] = [set() for _ in cases]
        for group, changed in self.changes():
            with changed:
                for index, case in enumerate(cases):
                    before = answers[index]
                    after = self.run(case)
                    if isinstance(before, Answer) and isinstance(after, Answer):
                        found[index] |= {(place, group) for place in _different(before, after)}
        return [
            answer if isinstance(answer, str) else _truth(answer, found[index]) for index, answer in enumerate(answers)
        ]


def _truth(answer: Answer, found: set[tuple[int, Group]]) -> Truth:
    columns = range(len(answer.columns))
    return Truth(answer, tuple(frozenset(group for place, group in found if place == column) for column in columns))


def _different(before: Answer, after: Answer) -> list[int]:
    """Return the columns whose values differ, ignoring the number and order of rows."""
    return [
        place
        for place, (old, new) in enumerate(zip(before.values, after.values, strict=True))
        if len(old) == len(new) and sorted(map(str, old)) != sorted(map(str, new))
    ]


class Precision:
    """The precision of lineage. `beyond` counts the reported sources without effect, of `named` in all."""

    def __init__(self) -> None:
        self.statements = self.columns = self.unknown = self.named = self.beyond = 0

    def add(self, other: Precision) -> None:
        for name, count in vars(other).items():
            setattr(self, name, getattr(self, name) + count)

    def __str__(self) -> str:
        return (
            f"{self.statements} statements, {self.columns} columns; unknown {self.unknown / self.columns:.1%}; "
            f"sources that do not show {self.beyond / max(1, self.named):.1%} of {self.named}"
        )


class Session(Protocol):
    def record_statement(self, text: str) -> None: ...

    def of(self, text: str, columns: tuple[Column, ...]) -> Sequence[Origin | None] | None: ...


class Lineage(Protocol):
    def sources(self, text: str, schema: TargetSchema) -> Sources | None: ...


def compare_cases(
    there: World,
    cases: Sequence[Case],
    lineage: Lineage,
    begin: Callable[[], Session],
) -> tuple[list[str], Precision]:
    """Return the leaks and the precision. A case that the server rejects is an error in the test."""
    precision, leaks = Precision(), []
    tables = {key for key, relation in there.schema.relations.items() if not relation.definition}
    truths = there.truths(cases)
    refused = [truth for truth in truths if isinstance(truth, str)]
    assert not refused, "\n".join(refused)
    for case, truth in zip(cases, truths, strict=True):
        assert not isinstance(truth, str)
        session = begin()
        for statement in case:
            session.record_statement(statement)
        columns = truth.answer.columns
        is_copy = case[-1].startswith("copy")  # without described columns
        origins = session.of(case[-1], () if is_copy else columns) or (None,) * len(columns)
        found = [None if origin is None else origin.refs for origin in origins]
        assert len(found) == len(columns), case
        alone = lineage.sources(case[-1], there.schema) if len(case) == 1 else None
        assert alone is None or len(alone) == len(columns), case
        precision.statements += 1
        for place, groups in enumerate(truth.influences):
            for sources in [found[place]] if alone is None else [found[place], alone[place]]:
                if sources is not None and any(group.isdisjoint(sources) for group in groups):
                    leaks.append(f"{case}, column {place + 1}: {sorted(map(str, groups))} differs, found {sources}")
            precision.columns += 1
            sources = found[place]
            if sources is None:
                precision.unknown += 1
                continue
            base = {source for source in sources if (source.schema, source.table) in tables}
            precision.named += len(base)
            precision.beyond += len(base - {source for group in groups for source in group})
    return leaks, precision
