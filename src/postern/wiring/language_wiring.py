"""The language model that masking uses, where one is configured."""

from __future__ import annotations

import importlib

from postern.domain.rules.masking import MODEL_TYPES
from postern.errors import Misconfigured
from postern.inspection.masking import masking_language
from postern.settings import Settings


def language_types(settings: Settings) -> frozenset[str]:
    """What may be masked with it; none without one."""
    return frozenset(MODEL_TYPES) if settings.masking_language_model else frozenset()


def provide_language_model(settings: Settings) -> None:
    """For this process. Raises Misconfigured where a model is configured that is not there."""
    if not settings.masking_language_model:
        return
    try:
        provider = importlib.import_module("postern.integrations.presidio")
    except ModuleNotFoundError as error:
        raise Misconfigured(
            f"POSTERN_MASKING_LANGUAGE_MODEL needs {error.name}; run: pip install postern[presidio]",
            field="masking_language_model",
        ) from None
    masking_language.provide(provider.PresidioModel(settings.masking_language_model))
