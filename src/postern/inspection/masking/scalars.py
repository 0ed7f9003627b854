"""Masking of numeric and network address columns, by numbers and addresses."""

from __future__ import annotations

import re
from collections.abc import Sequence

from postern.domain.rules.masking import InfoType
from postern.inspection.masking.detector import SEPARATOR
from postern.inspection.masking.detectors import Detectors
from postern.inspection.masking.joined_texts import Hits
from postern.inspection.masking.kinds.card import is_card
from postern.inspection.masking.kinds.ip import HARDWARE

NO_ADDRESS_V4 = b"0.0.0.0"
NO_ADDRESS_V6 = b"::"

SHORTEST_NUMBER = 6  # digits: shorter numbers can only be an age
_ADDRESS_MARK = re.compile(rb"[.:]")
_WHOLE_NUMBER = re.compile(rb"\d{12,19}")


def mask_numbers(detectors: Detectors, texts: Sequence[bytes], hits: Hits) -> list[bytes] | None:
    """Mask card numbers by zeros and their last four digits, other values by zeros. Returns None if nothing is to
    mask.
    """
    if not texts:
        return None
    joined = SEPARATOR.join(texts)
    column = detectors.mask_column(texts, joined)
    if column is not None and column[0] == InfoType.CREDIT_CARD:
        hits.add(column[0], len(texts), len(joined) - len(texts) + 1)
        return [text[-4:].rjust(len(text), b"0") for text in texts]
    if not detectors.worth(joined):
        return None
    before = hits.size
    masked = list(texts)
    if InfoType.CREDIT_CARD in detectors.types:
        for place, text in enumerate(texts):
            if _WHOLE_NUMBER.fullmatch(text) and is_card(text):
                hits.add(InfoType.CREDIT_CARD, 1, len(text))
                masked[place] = text[-4:].rjust(len(text), b"0")
    whole = {(match.start, match.end): match.type for match in detectors.find(joined)}
    at = 0
    for place, text in enumerate(texts):
        kind = whole.get((at, at + len(text)))
        at += len(text) + 1
        if kind is None or masked[place] != text or not text.isdigit():
            continue
        if kind == InfoType.AGE:
            hits.add(kind, 1, len(text))
            masked[place] = b"0"
        elif len(text) >= SHORTEST_NUMBER:
            hits.add(kind, 1, len(text))
            masked[place] = b"0" * len(text)
    return masked if hits.size > before else None


def mask_addresses(detectors: Detectors, texts: Sequence[bytes], hits: Hits) -> list[bytes] | None:
    """Replace every address by the unspecified one. Returns None if nothing is to mask."""
    if InfoType.IP_ADDRESS not in detectors.types:
        return None
    before = hits.size
    masked = [_mask_address(text, hits) for text in texts]
    return masked if hits.size > before else None


def _mask_address(text: bytes, hits: Hits) -> bytes:
    if HARDWARE.fullmatch(text) or not _ADDRESS_MARK.search(text):
        return text
    mask = NO_ADDRESS_V6 if b":" in text else NO_ADDRESS_V4
    if text != mask:
        hits.add(InfoType.IP_ADDRESS, 1, len(text))
    return mask
