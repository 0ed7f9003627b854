"""The port for language models, which tell names and places: what only a model can find, and what none here finds.

A model reads a text as characters and may take its time; it lives outside of this room and is passed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from postern.domain.rules.masking import MODEL_TYPES
from postern.inspection.masking.detector import Span, ValueForm, found_form

__all__ = ["MODEL_TYPES", "LanguageModel", "model_forms"]

MASK = b"****"
SCORE = 0.85  # what such models give a name where they give no probability
# Anything in which a name could be: two letters, or any byte that is no ASCII.
_CANDIDATE = rb"[A-Za-z\x80-\xff]{2}"


class LanguageModel(Protocol):
    """Hashed by identity. `types` says which of MODEL_TYPES it knows. `find` answers types, where they begin and end
    in characters of the text, and how sure it is."""

    def __hash__(self) -> int: ...

    @property
    def types(self) -> frozenset[str]: ...

    def find(self, text: str, types: frozenset[str]) -> Sequence[tuple[str, int, int, float]]: ...


def model_forms(model: LanguageModel, types: frozenset[str], threshold: float) -> list[tuple[str, ValueForm]]:
    """One form for each kind."""
    return [(kind, found_form(_CANDIDATE, _finder(model, kind, threshold), SCORE, MASK)) for kind in sorted(types)]


_provided: list[LanguageModel] = []


def provide(model: LanguageModel) -> None:
    """Makes it the one that all detectors of this process use. Called once, while the process starts."""
    _provided[:] = [model]


def provided() -> LanguageModel | None:
    return _provided[0] if _provided else None


class _Cells:
    """Finds in each cell of joined texts on its own."""

    def __init__(self, model: LanguageModel, kind: str, threshold: float) -> None:
        self._model = model
        self._kinds = frozenset({kind})
        self._threshold = threshold

    def __call__(self, text: bytes) -> list[Span]:
        spans: list[Span] = []
        at = 0
        for cell in text.split(b"\x00"):
            spans += [(at + start, at + end) for start, end in self._in_cell(cell)]
            at += len(cell) + 1
        return spans

    def _in_cell(self, cell: bytes) -> list[Span]:
        read = cell.decode("utf-8", "surrogateescape")
        found = self._model.find(read, self._kinds)
        spans: list[Span] = []
        for _, first, last, score in sorted(found, key=lambda one: one[1]):
            start = len(read[:first].encode("utf-8", "surrogateescape"))
            end = start + len(read[first:last].encode("utf-8", "surrogateescape"))
            if score >= self._threshold and end > start and (not spans or start >= spans[-1][1]):
                spans.append((start, end))
        return spans


def _finder(model: LanguageModel, kind: str, threshold: float) -> _Cells:
    return _Cells(model, kind, threshold)
