"""Names and places found by the real Presidio and spaCy, where installed, with a small model built here."""

from __future__ import annotations

from pathlib import Path

import pytest

from postern.errors import Misconfigured, Unavailable
from postern.inspection.masking.detectors import detectors_for

spacy = pytest.importorskip("spacy", reason="the extra `presidio` is not installed")
pytest.importorskip("presidio_analyzer", reason="the extra `presidio` is not installed")
from postern.integrations.presidio import LONGEST, PresidioModel  # noqa: E402


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> PresidioModel:
    """Of a pipeline that knows one person and one place by heart."""
    pipeline = spacy.blank("en")
    ruler = pipeline.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "PERSON", "pattern": "Zoë Kern"}, {"label": "GPE", "pattern": "Oslo"}])
    folder: Path = tmp_path_factory.mktemp("model") / "small"
    pipeline.to_disk(folder)
    return PresidioModel(str(folder))


def test_names_and_places_are_found_together_with_other_types(model: PresidioModel) -> None:
    detectors = detectors_for(frozenset({"PERSON", "LOCATION", "EMAIL_ADDRESS"}), language=model)
    text = "é: Zoë Kern, Oslo\x00zoe@example.com of Oslo".encode()
    assert [(one.type, text[one.start : one.end].decode()) for one in detectors.find(text)] == [
        ("PERSON", "Zoë Kern"),
        ("LOCATION", "Oslo"),
        ("EMAIL_ADDRESS", "zoe@example.com"),
        ("LOCATION", "Oslo"),
    ]


def test_overlong_text_is_unavailable_for_detection(model: PresidioModel) -> None:
    detectors = detectors_for(frozenset({"PERSON"}), language=model)
    with pytest.raises(Unavailable, match="too long to search for names"):
        detectors.find(b"an " * LONGEST)


def test_missing_model_is_misconfigured_and_never_downloaded() -> None:
    with pytest.raises(Misconfigured, match="en_core_web_nothing"):
        PresidioModel("en_core_web_nothing")
