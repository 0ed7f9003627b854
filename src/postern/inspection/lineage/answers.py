"""Matching of an answer's columns with those of the statements that can have produced it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from postern.domain.targets.target_schema import Origin
from postern.inspection.lineage.scope import Out, either, merge_sources, union
from postern.interception.events import Column

Outs = tuple[Out, ...]


def one_of(candidates: Sequence[Outs | None], columns: Sequence[Column], cut: Callable[[str], str]) -> Outs | None:
    """Return the lineage of an answer with these columns, which one of several statements produced.

    None if it can be the answer to a statement of unknown lineage. `cut` returns names in the form in which they are
    compared.
    """
    if len(candidates) > 1 and columns:
        candidates = [outs for outs in candidates if outs is None or _fits(outs, columns, cut)]
    outs_of_all = [outs for outs in candidates if outs is not None]
    if not outs_of_all or len(outs_of_all) < len(candidates):
        return None
    first, *others = outs_of_all
    for other in others:
        if first == other:
            continue
        if len(first) != len(other) or any(out.many for out in (*first, *other)):
            return (Out(None, merge_sources([*first, *other]), many=True),)
        first = tuple(
            Out(a.name, union([a.sources, b.sources]), plain=either(a.plain, b.plain))
            for a, b in zip(first, other, strict=True)
        )
    return first


def _fits(outs: Outs, columns: Sequence[Column], cut: Callable[[str], str]) -> bool:
    """Return whether an answer with these columns can have this lineage, by their number and by the names that are
    certain.
    """
    if any(out.many for out in outs):
        return True
    return len(outs) == len(columns) and all(
        out.name is None or cut(out.name) == cut(column.name) for out, column in zip(outs, columns, strict=True)
    )


def origin_of(out: Out) -> Origin | None:
    return None if out.sources is None else Origin(out.sources, out.plain)


def origins_of_all(outs: Outs | None) -> tuple[Origin | None, ...] | None:
    """Return the origins of an answer without a description; None if the number of its columns is unknown."""
    return None if outs is None or any(out.many for out in outs) else tuple(map(origin_of, outs))


def spread(outs: Outs, width: int) -> list[Out] | None:
    """Return one entry for each column of an answer, if some of `outs` stand for several. None if they do not fit."""
    many = [place for place, out in enumerate(outs) if out.many]
    if not many:
        return list(outs) if len(outs) == width else None
    first, last = many[0], many[-1]
    head, tail = outs[:first], outs[last + 1 :]
    between = width - len(head) - len(tail)
    if between < 0:
        return None
    middle = Out(None, merge_sources(outs[first : last + 1]))
    return [*head, *([middle] * between), *tail]
