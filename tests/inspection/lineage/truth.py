"""What lineage is compared with: which columns change an answer when they change, found by changing each of them."""

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
    """`influences` are, for each column of the answer, the groups of columns of which one at least shows in it."""

    answer: Answer
    influences: tuple[frozenset[Group], ...]


class World:
    """A database whose every column holds one value of its own."""

    schema: TargetSchema

    def changes(self) -> Iterable[tuple[Group, AbstractContextManager[None]]]:
        """Each group of columns, and what changes it for as long as it is entered."""
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
    """The columns that another number of rows, or another order of them, does not make different."""
    return [
        place
        for place, (old, new) in enumerate(zip(before.values, after.values, strict=True))
        if len(old) == len(new) and sorted(map(str, old)) != sorted(map(str, new))
    ]


class Told:
    """How precise what is told is. `beyond` counts the sources that do not show, of `named` in all."""

    def __init__(self) -> None:
        self.statements = self.columns = self.unknown = self.named = self.beyond = 0

    def add(self, other: Told) -> None:
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


def judged(
    there: World,
    cases: Sequence[Case],
    lineage: Lineage,
    begin: Callable[[], Session],
) -> tuple[list[str], Told]:
    """What leaks, and how precise the rest is. A case that the server refuses is a mistake of the test."""
    told, leaks = Told(), []
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
        is_copy = case[-1].startswith("copy")  # whose columns nobody tells
        origins = session.of(case[-1], () if is_copy else columns) or (None,) * len(columns)
        found = [None if origin is None else origin.refs for origin in origins]
        assert len(found) == len(columns), case
        alone = lineage.sources(case[-1], there.schema) if len(case) == 1 else None
        assert alone is None or len(alone) == len(columns), case
        told.statements += 1
        for place, groups in enumerate(truth.influences):
            for sources in [found[place]] if alone is None else [found[place], alone[place]]:
                if sources is not None and any(group.isdisjoint(sources) for group in groups):
                    leaks.append(f"{case}, column {place + 1}: {sorted(map(str, groups))} shows, told {sources}")
            told.columns += 1
            sources = found[place]
            if sources is None:
                told.unknown += 1
                continue
            base = {source for source in sources if (source.schema, source.table) in tables}
            told.named += len(base)
            told.beyond += len(base - {source for group in groups for source in group})
    return leaks, told
