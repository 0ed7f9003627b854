"""Cases written as lines: the effect on a server (h: harmless, c: changes something, p: denied to an ordinary
account, x: rejected, u: undecidable), the expected effects by their first letters (`read`, `write`, `ddl`, `grant`,
`session`, `admin`, `unknown`), a `!` for a DELETE or UPDATE without a condition, and the text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.bypass.cases import Case, Ordinary, Truth

from postern.domain.rules.statement import Effect

_TRUTHS = {"h": Truth.HARMLESS, "c": Truth.CHANGES, "p": Truth.PRIVILEGED, "x": Truth.REJECTED, "u": Truth.UNDECIDABLE}
_EFFECTS = {effect.value[0]: effect for effect in Effect}


def _case(group: str, line: tuple[str, ...]) -> Case:
    marks, text, *before = line
    truth, _, effects = marks.partition(" ")
    return Case(
        name=f"{group}: {text[:70]}",
        group=group,
        text=text,
        truth=_TRUTHS[truth],
        effects=None if truth == "x" else frozenset(_EFFECTS[letter] for letter in effects.rstrip("!")),
        without_where="!" in effects,
        before=tuple(before),
    )


def cases(listed: Mapping[str, Iterable[tuple[str, ...]]]) -> list[Case]:
    """Build cases from lines by group."""
    return [_case(group, line) for group, lines in listed.items() for line in lines]


def ordinary(listed: Mapping[tuple[str, str], str]) -> list[Ordinary]:
    """Build statements from lines by sender and effect letters; one statement per line."""
    return [
        _ordinary(source, effects, line)
        for (source, effects), lines in listed.items()
        for line in lines.strip().splitlines()
        if line.strip()
    ]


def ordinary_each(listed: Mapping[str, Iterable[tuple[str, str]]]) -> list[Ordinary]:
    """Build statements from pairs of effect letters and text by sender; a text can have several lines."""
    return [_ordinary(source, effects, text) for source, lines in listed.items() for effects, text in lines]


def _ordinary(source: str, effects: str, text: str) -> Ordinary:
    return Ordinary(source, text, frozenset(_EFFECTS[letter] for letter in effects))
