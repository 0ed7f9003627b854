"""The interceptor that masks answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from postern.domain.masking import InfoType
from postern.inspection.masking.detectors import Detectors, detectors_for
from postern.inspection.masking.json_documents import mask_documents
from postern.inspection.masking.lines import mask_lines
from postern.inspection.masking.scalars import mask_addresses, mask_numbers
from postern.inspection.masking.texts import Hits, mask_texts
from postern.interception.events import Channel, Event, Kind, Output, Rows
from postern.interception.pipeline import SessionView
from postern.interception.verdicts import FORWARD, REPLACE, Verdict

_Mask = Callable[[Detectors, Sequence[bytes], Hits], list[bytes] | None]

_MASKS: dict[Kind, _Mask] = {
    Kind.TEXT: mask_texts,
    Kind.JSON: mask_documents,
    Kind.NUMBER: mask_numbers,
    Kind.ADDRESS: mask_addresses,
}


class Masking:
    """Replaces every value of the given kinds in rows and in any other answer; counts them in the session's metrics.

    `transformed_bytes` counts the bytes of the values that were replaced.
    """

    name = "masking"

    def __init__(self, types: frozenset[InfoType]) -> None:
        self.wants: frozenset[type[Event]] = frozenset({Rows, Output}) if types else frozenset()
        self._detectors = detectors_for(types) if types else None

    def see(self, event: Event, session: SessionView) -> Verdict:
        if self._detectors is None:
            return FORWARD
        hits = Hits()
        if isinstance(event, Rows):
            self._mask_rows(self._detectors, event, hits)
        elif isinstance(event, Output):
            texts = event.texts()
            mask = mask_lines if event.channel is Channel.COPY else mask_texts
            masked = mask(self._detectors, texts, hits) if texts else None
            if masked is not None:
                event.replace(masked)
        if not hits.counts:
            return FORWARD
        for kind, count in hits.counts.items():
            session.metrics.count(str(kind), count)
        session.metrics.transformed_bytes += hits.size
        return REPLACE

    @staticmethod
    def _mask_rows(detectors: Detectors, rows: Rows, hits: Hits) -> None:
        for index, column in enumerate(rows.columns):
            mask = _MASKS.get(column.kind)
            if mask is None:
                continue
            texts = rows.texts(index)
            if not texts:
                continue
            masked = mask(detectors, texts, hits)
            if masked is not None:
                rows.replace(index, masked)
