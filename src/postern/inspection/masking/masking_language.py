"""Port for language models, which find names and places in running text.

A model reads text as characters and can be slow. It is implemented outside of this package and passed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from postern.domain.rules.masking import MODEL_TYPES
from postern.inspection.masking.detector import Span, ValueForm, found_form

__all__ = ["MODEL_TYPES", "LanguageModel", "model_forms"]

MASK = b"****"
SCORE = 0.85  # score of a name if the model returns no probability
# Any text that can contain a name: two letters, or any non-ASCII byte.
_CANDIDATE = rb"[A-Za-z\x80-\xff]{2}"


class LanguageModel(Protocol):
    """Language model. Hashed by identity.

    `types` says which of MODEL_TYPES it supports. `find` returns types, start and end in characters, and scores.
    """

    def __hash__(self) -> int: ...

    @property
    def types(self) -> frozenset[str]: ...

    def find(self, text: str, types: frozenset[str]) -> Sequence[tuple[str, int, int, float]]: ...


def model_forms(model: LanguageModel, types: frozenset[str], threshold: float) -> list[tuple[str, ValueForm]]:
    """Return one form for each kind."""
    return [(kind, found_form(_CANDIDATE, _finder(model, kind, threshold), SCORE, MASK)) for kind in sorted(types)]


_provided: list[LanguageModel] = []


def provide(model: LanguageModel) -> None:
    """Set the model that all detectors of this process use. Called once at start."""
    _provided[:] = [model]


def provided_model() -> LanguageModel | None:
    return _provided[0] if _provided else None


class _Cells:
    """Finder in each cell of joined texts on its own."""

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
        matches = self._model.find(read, self._kinds)
        spans: list[Span] = []
        for _, first, last, score in sorted(matches, key=lambda match: match[1]):
            start = len(read[:first].encode("utf-8", "surrogateescape"))
            end = start + len(read[first:last].encode("utf-8", "surrogateescape"))
            if score >= self._threshold and end > start and (not spans or start >= spans[-1][1]):
                spans.append((start, end))
        return spans


def _finder(model: LanguageModel, kind: str, threshold: float) -> _Cells:
    return _Cells(model, kind, threshold)
