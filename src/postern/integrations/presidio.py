"""Detection of names of people, places, groups and organisations by Microsoft Presidio, with a spaCy model of a
language.

Needs the extra `presidio` and an installed model; nothing is downloaded. A model reads a few hundred kilobytes per
second at best, on the event loop of its worker, so a text beyond the limit is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import spacy
from presidio_analyzer.nlp_engine import SpacyNlpEngine
from presidio_analyzer.predefined_recognizers import SpacyRecognizer

from postern.domain.rules.masking import MODEL_TYPES
from postern.errors import Misconfigured, Unavailable

LONGEST = 100_000  # characters of one text
_LABEL = "en"  # Presidio's name of the only model, whatever its language
_REMEMBERED = 4096  # maximum length of cached texts
_MEMORY = 2048  # texts


class PresidioModel:
    """The detector. `model` is the name of an installed spaCy model, or its folder. Raises Misconfigured when it is
    missing."""

    types: frozenset[str] = frozenset(MODEL_TYPES)

    def __init__(self, model: str) -> None:
        # Presidio would download a missing model.
        if not spacy.util.is_package(model) and not Path(model).is_dir():
            raise Misconfigured(
                f"POSTERN_MASKING_LANGUAGE_MODEL: the spaCy model {model!r} is not installed; "
                f"run: python -m spacy download {model}",
                field="masking_language_model",
            )
        self._engine: Any = SpacyNlpEngine(models=[{"lang_code": _LABEL, "model_name": model}])
        self._engine.load()
        self._recognizer: Any = SpacyRecognizer(supported_language=_LABEL, supported_entities=sorted(MODEL_TYPES))
        self._remembered = lru_cache(maxsize=_MEMORY)(self._read)

    def find(self, text: str, types: frozenset[str]) -> Sequence[tuple[str, int, int, float]]:
        """Find names. Raises Unavailable for a text that is too long."""
        if len(text) > LONGEST:
            raise Unavailable(
                f"a text of {len(text)} characters is too long to search for names (the limit is {LONGEST}); select "
                "less of it, or ask an administrator to remove the types that need a language model"
            )
        findings = self._remembered(text) if len(text) <= _REMEMBERED else self._read(text)
        return [finding for finding in findings if finding[0] in types]

    def _read(self, text: str) -> tuple[tuple[str, int, int, float], ...]:
        artifacts = self._engine.process_text(text, _LABEL)
        findings = self._recognizer.analyze(text, sorted(MODEL_TYPES), artifacts)
        return tuple((finding.entity_type, finding.start, finding.end, float(finding.score)) for finding in findings)
