"""Masks JSON documents: strings by what they say once unescaped, numbers by numbers, and nothing else changes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from postern.domain.masking import InfoType
from postern.inspection.masking.card import is_card
from postern.inspection.masking.detector import compile_linear
from postern.inspection.masking.detectors import Detectors
from postern.inspection.masking.texts import SEPARATOR, Hits, mask_text, mask_texts

_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_NUMBER = rb"-?\d++(?:\.\d++)?+(?:[eE][+-]?\d++)?+"
_VALUE = re.compile(rb"(" + _STRING + rb"|" + _NUMBER + rb")", re.DOTALL)
_DOCUMENT = re.compile(rb"(?:[ \t\r\n\[\]{}:,]++|true|false|null|" + _STRING + rb"|" + _NUMBER + rb")*+", re.DOTALL)
_WHOLE_NUMBER = re.compile(rb"\d{12,19}")
# What a string may say without its raw bytes showing it; other escapes stand for an edge.
_HIDING_ESCAPE = compile_linear(rb"\\[u/]")
# What the raw bytes cannot be masked by: an escape in a string, or a number that may be a card.
_NEEDS_CARE = compile_linear(rb"\\|\d{12}")


def mask_documents(detectors: Detectors, texts: Sequence[bytes], hits: Hits) -> list[bytes] | None:
    """As many documents as came in; None when there is nothing to mask. Adds to `hits`."""
    joined = SEPARATOR.join(texts)
    if not _may_hold(detectors, joined):
        return None
    if not _NEEDS_CARE.search(joined):  # no value crosses a quote, so the bytes can be masked where they stand
        return mask_texts(detectors, texts, hits)
    before = hits.size
    masked = [_mask_document(detectors, text, hits) for text in texts]
    return masked if hits.size > before else None


def _may_hold(detectors: Detectors, text: bytes) -> bool:
    return bool(detectors.may_hold.search(text) or _HIDING_ESCAPE.search(text))


def _mask_document(detectors: Detectors, document: bytes, hits: Hits) -> bytes:
    if not _may_hold(detectors, document):
        return document
    if not _NEEDS_CARE.search(document) or not _DOCUMENT.fullmatch(document):  # the latter is no JSON to keep valid
        return mask_text(detectors, document, hits) or document
    parts = _VALUE.split(document)
    before = hits.size
    strings = [index for index in range(1, len(parts), 2) if parts[index].startswith(b'"')]
    _mask_strings(detectors, parts, strings, hits)
    if InfoType.CREDIT_CARD in detectors.types:
        for index in range(1, len(parts), 2):
            number = parts[index]
            if len(number) >= 12 and _WHOLE_NUMBER.fullmatch(number) and is_card(number):
                hits.add(InfoType.CREDIT_CARD, 1, len(number))
                parts[index] = str(int(number[-4:])).encode()  # a JSON number has no leading zeros
    return b"".join(parts) if hits.size > before else document


def _mask_strings(detectors: Detectors, parts: list[bytes], indexes: list[int], hits: Hits) -> None:
    contents = [_unescape(parts[index]) for index in indexes]
    masked = mask_texts(detectors, contents, hits)
    if masked is None:
        return
    for index, old, new in zip(indexes, contents, masked, strict=True):
        if new != old:
            parts[index] = _escape(new) if b"\\" in parts[index] else b'"' + new + b'"'


def _unescape(string: bytes) -> bytes:
    """What a JSON string, quotes included, says; in UTF-8 when it had escapes."""
    if b"\\" not in string:
        return string[1:-1]
    for encoding in ("utf-8", "latin-1"):  # whatever the client's encoding, escapes are ASCII
        try:
            return str(json.loads(string.decode(encoding), strict=False)).encode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            continue
        except ValueError:
            break
    return string[1:-1]


def _escape(text: bytes) -> bytes:
    """A JSON string in ASCII, which is right in every encoding."""
    return json.dumps(text.decode("utf-8", "surrogatepass")).encode()
