"""The language model for masking, if one is configured."""

from __future__ import annotations

import importlib

from postern.domain.rules.masking import MODEL_TYPES
from postern.errors import Misconfigured
from postern.inspection.masking import masking_language
from postern.settings import Settings


def language_types(settings: Settings) -> frozenset[str]:
    """Return the information types that it finds; none without a model."""
    return frozenset(MODEL_TYPES) if settings.masking_language_model else frozenset()


def provide_language_model(settings: Settings) -> None:
    """Load it for this process. Raises Misconfigured if the configured model is missing."""
    if not settings.masking_language_model:
        return
    try:
        provider = importlib.import_module("postern.integrations.presidio")
    except ModuleNotFoundError as error:
        raise Misconfigured(
            f"POSTERN_MASKING_LANGUAGE_MODEL needs {error.name}; run: pip install presidio-analyzer",
            field="masking_language_model",
        ) from None
    masking_language.provide(provider.PresidioModel(settings.masking_language_model))
