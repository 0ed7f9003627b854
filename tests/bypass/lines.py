"""Cases written as lines: what a server does with it (h: harmless, c: changes something, p: may not be done by an
ordinary account, x: rejected, u: cannot be told), the effects it must be judged to have by their first letters (`read`,
`write`, `ddl`, `grant`, `session`, `admin`, `unknown`), a `!` where a DELETE or UPDATE has no condition, and the text."""

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
    """By their group."""
    return [_case(group, line) for group, lines in listed.items() for line in lines]


def ordinary(listed: Mapping[tuple[str, str], str]) -> list[Ordinary]:
    """By who sends it and the letters of the effects; one statement a line."""
    return [
        _ordinary(source, effects, line)
        for (source, effects), lines in listed.items()
        for line in lines.strip().splitlines()
        if line.strip()
    ]


def ordinary_each(listed: Mapping[str, Iterable[tuple[str, str]]]) -> list[Ordinary]:
    """By who sends it: the letters of the effects, and a statement of any number of lines."""
    return [_ordinary(source, effects, text) for source, lines in listed.items() for effects, text in lines]


def _ordinary(source: str, effects: str, text: str) -> Ordinary:
    return Ordinary(source, text, frozenset(_EFFECTS[letter] for letter in effects))
