"""Labelled texts: values in cells of columns with and without a telling name, in sentences, and in JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass

from bench.labelled.maker import Maker
from bench.labelled.names import TELLING
from bench.labelled.negatives import NEGATIVES
from bench.labelled.values import MAKERS

from postern.domain.rules.masking import PERSONAL_TYPES, InfoType

NEUTRAL = ("value", "field_7", "c1", "data", "note")
BEFORE = ("We were told {} last week.", "Please check {} again", "{} was on the form", "see: {}", "got {}, thanks")


@dataclass(frozen=True, slots=True)
class Sample:
    """A text of a column. `kind` is what `start` to `end`, in bytes, holds, or None for nothing; `told` says whether
    the column's name, the key, or a word in the text tells it."""

    text: bytes
    column: str
    told: bool
    kind: InfoType | None = None
    start: int = 0
    end: int = 0


def _held(kind: InfoType, value: str, text: str, column: str, told: bool) -> Sample:
    start = len(text[: text.index(value)].encode())
    return Sample(text.encode(), column, told, kind, start, start + len(value.encode()))


def _with(kind: InfoType, value: str) -> str:
    """What always stands around such a value, since it is part of how one is written."""
    return {
        InfoType.URL_PASSWORD: f"postgres://app:{value}@db/shop",
        InfoType.AUTHORIZATION_HEADER: f"Authorization: Bearer {value}",
        InfoType.HTTP_COOKIE: f"Set-Cookie: {value}",
    }.get(kind, value)


def _of_kind(m: Maker, kind: InfoType, count: int) -> list[Sample]:
    names, words = TELLING[kind]
    samples = []
    for place in range(count):
        value = MAKERS[kind](m)
        written = _with(kind, value)
        way = place % 5
        if way == 0:
            samples.append(_held(kind, value, written, m.one_of(*names), True))
        elif way == 1:
            samples.append(_held(kind, value, written, m.one_of(*NEUTRAL), False))
        elif way == 2:
            text = m.one_of("The customer's {} is {}.", "{}: {}", "{} {}", "new {} - {} - noted")
            samples.append(_held(kind, value, text.format(m.one_of(*words), written), "note", True))
        elif way == 3:
            samples.append(_held(kind, value, m.one_of(*BEFORE).format(written), "note", False))
        elif "\n" in written:
            samples.append(_held(kind, value, written, "data", False))
        else:
            document = json.dumps({"id": int(m.digits(4)), m.one_of(*names): written, "ok": True}, ensure_ascii=False)
            samples.append(_held(kind, value, document, "doc", True))
    return samples


def _negatives(m: Maker, count: int) -> list[Sample]:
    samples = []
    for names, make in NEGATIVES.values():
        for place in range(count):
            value, name = make(m), m.one_of(*names)
            way = place % 4
            if way == 0:
                samples.append(Sample(value.encode(), name, False))
            elif way == 1:
                samples.append(Sample(value.encode(), m.one_of(*NEUTRAL), False))
            elif way == 2:
                samples.append(Sample(m.one_of(*BEFORE).format(value).encode(), "note", False))
            else:
                samples.append(Sample(json.dumps({"id": 7, name: value}).encode(), "doc", False))
    return samples


def labelled(seed: int = 7, of_each: int = 60, negatives: int = 120) -> list[Sample]:
    """The same for the same seed. `of_each` samples of each kind, `negatives` of each thing that only looks so."""
    m = Maker(seed)
    samples = [sample for kind in MAKERS if kind not in PERSONAL_TYPES for sample in _of_kind(m, kind, of_each)]
    samples += _negatives(m, negatives)
    m.random.shuffle(samples)
    return samples
