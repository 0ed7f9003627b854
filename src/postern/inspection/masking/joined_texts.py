"""Masking of many texts at once: joined, searched as one, and split again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from postern.inspection.masking.detector import SEPARATOR, Span
from postern.inspection.masking.detectors import Detectors

_MANY = 32  # texts; fewer are masked without counting repetitions
_REPEATED = 4  # average repetitions from which counting pays


@dataclass(slots=True)
class Hits:
    """Counts of replaced values by kind, and their size in bytes."""

    counts: dict[str, int] = field(default_factory=dict)
    size: int = 0

    def add(self, kind: str, hits: int, size: int) -> None:
        if hits:
            self.counts[kind] = self.counts.get(kind, 0) + hits
            self.size += size

    def clear(self) -> None:
        self.counts = {}
        self.size = 0

    def merge(self, other: Hits) -> None:
        for kind, count in other.counts.items():
            self.add(kind, count, 0)
        self.size += other.size


def mask_texts(detectors: Detectors, texts: Sequence[bytes], hits: Hits) -> list[bytes] | None:
    """Mask each text on its own; return None if there is nothing to mask. Adds to `hits`."""
    if not texts:
        return None
    joined = SEPARATOR.join(texts)
    column = detectors.mask_column(texts, joined)
    if column is not None:
        hits.add(column[0], len(texts), len(joined) - len(texts) + 1)
        return column[1]
    cells = detectors.find_cells(joined) if len(texts) >= _MANY else None
    if cells is not None:
        return _mask_cells(detectors, texts, joined, cells, hits)
    worth = detectors.worth(joined)
    return mask_joined(detectors, texts, joined, worth, hits) if worth else None


def _mask_cells(
    detectors: Detectors, texts: Sequence[bytes], joined: bytes, cells: Sequence[Span], hits: Hits
) -> list[bytes] | None:
    """Mask the texts at these positions of joined texts; nothing can be found in the others."""
    if not cells:
        return None
    if joined.count(SEPARATOR) != len(texts) - 1:
        return _mask_each(detectors, texts, hits)
    some = [joined[start:end] for start, end in cells]
    joined_cells = SEPARATOR.join(some)
    masked = mask_joined(detectors, some, joined_cells, detectors.worth(joined_cells), hits)
    if masked is None:
        return None
    parts: list[bytes] = []
    copied = 0
    for (start, end), text in zip(cells, masked, strict=True):
        parts += (joined[copied:start], text)
        copied = end
    parts.append(joined[copied:])
    return _split(b"".join(parts), len(texts))


def _split(joined: bytes, count: int) -> list[bytes]:
    texts = joined.split(SEPARATOR)
    if len(texts) != count:
        raise RuntimeError(f"masking returned {len(texts)} texts for {count}")
    return texts


def mask_joined(
    detectors: Detectors, texts: Sequence[bytes], joined: bytes, worth: Sequence[int], hits: Hits
) -> list[bytes] | None:
    """Mask joined texts whose `worth` is known, and none of which is a value from end to end. Works as `mask_texts`."""
    if joined.count(SEPARATOR) != len(texts) - 1:
        return _mask_each(detectors, texts, hits)
    sample = texts[:: _REPEATED - 1]  # if most of it are different texts, so are all, and need not be counted
    if len(texts) >= _MANY and len(set(sample)) * _REPEATED <= len(texts):
        times = Counter(texts)
        if len(times) * _REPEATED <= len(texts):
            return _mask_distinct(detectors, texts, times, hits)
    masked = _mask_held(detectors, joined, worth, hits)
    return None if masked is None else _split(masked, len(texts))


def mask_text(detectors: Detectors, text: bytes, hits: Hits) -> bytes | None:
    """Replace every value in the text; return None if there is none. Adds to `hits`."""
    worth = detectors.worth(text)
    return _mask_held(detectors, text, worth, hits) if worth else None


def _mask_held(detectors: Detectors, text: bytes, worth: Sequence[int], hits: Hits) -> bytes | None:
    masked_text: bytes | None = None
    for kind, masked in detectors.mask(text, worth):
        masked_text = masked.text
        hits.add(kind, masked.hits, masked.size)
    return masked_text


def _mask_distinct(
    detectors: Detectors, texts: Sequence[bytes], times: Mapping[bytes, int], hits: Hits
) -> list[bytes] | None:
    """Mask each distinct text once."""
    masked: dict[bytes, bytes] = {}
    for text, count in times.items():
        text_hits = Hits()
        new = mask_text(detectors, text, text_hits)
        if new is not None:
            masked[text] = new
            for kind, count_in_text in text_hits.counts.items():
                hits.add(kind, count_in_text * count, 0)
            hits.size += text_hits.size * count
    return [masked.get(text, text) for text in texts] if masked else None


def _mask_each(detectors: Detectors, texts: Sequence[bytes], hits: Hits) -> list[bytes] | None:
    """Mask texts that contain the separator themselves."""
    masked = [mask_text(detectors, text, hits) for text in texts]
    if all(text is None for text in masked):
        return None
    return [old if new is None else new for old, new in zip(texts, masked, strict=True)]
