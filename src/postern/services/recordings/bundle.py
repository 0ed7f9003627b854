"""The services that are about recordings, built together."""

from __future__ import annotations

from dataclasses import dataclass

from postern.services.recordings.texts import SessionTexts
from postern.store.ports import Recordings, Stores


@dataclass(frozen=True)
class RecordingServices:
    session_texts: SessionTexts


def build_recordings(stores: Stores, recordings: Recordings) -> RecordingServices:
    return RecordingServices(session_texts=SessionTexts(stores.session_texts, recordings))
