"""Masking of JSON documents: strings by their unescaped content, numbers by numbers; all else stays."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from postern.domain.rules.masking import InfoType
from postern.inspection.masking.detector import SEPARATOR, compile_linear
from postern.inspection.masking.detectors import Detectors
from postern.inspection.masking.joined_texts import Hits, mask_joined, mask_text, mask_texts
from postern.inspection.masking.kinds.card import is_card
from postern.inspection.masking.scalars import SHORTEST_NUMBER

_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_NUMBER = rb"-?\d++(?:\.\d++)?+(?:[eE][+-]?\d++)?+"
_VALUE = re.compile(rb"(" + _STRING + rb"|" + _NUMBER + rb")", re.DOTALL)
_DOCUMENT = re.compile(rb"(?:[ \t\r\n\[\]{}:,]++|true|false|null|" + _STRING + rb"|" + _NUMBER + rb")*+", re.DOTALL)
_SHORTEST_CARD = 12
_WHOLE_NUMBER = re.compile(rb"\d{12,19}")
# Escapes that can hide a value in the raw bytes of a string; other escapes count as an edge.
_HIDING_ESCAPE = compile_linear(rb"\\[u/]")
# Content that cannot be masked in the raw bytes: an escape in a string, or a number that can be a value.
_NEEDS_CARE = compile_linear(rb"\\|\d{11}|[:,\[][ \t\r\n]*-?\d{6}")
# Parts of documents outside of strings, without escapes, separated by zero bytes. It accepts less than `_DOCUMENT`: a
# number must be followed by a delimiter.
_OUTSIDE = compile_linear(
    rb'(?:[ \t\r\n\[\]{}:,\x00"]|true|false|null|'
    rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?[ \t\r\n]*(?:[\]},\x00]|$))*"
)
_ANY_NUMBER = re.compile(rb"(" + _NUMBER + rb")")
_LONG_NUMBER = re.compile(rb"\d{6}")
_KEY_REACH = 64  # bytes of a key that can support its value


def mask_documents(detectors: Detectors, texts: Sequence[bytes], hits: Hits) -> list[bytes] | None:
    """Mask documents; return None if there is nothing to mask. Adds to `hits`."""
    joined = SEPARATOR.join(texts)
    worth = detectors.worth(joined)
    if not worth and not _HIDING_ESCAPE.search(joined):
        return None
    if not _NEEDS_CARE.search(joined):  # no value crosses a quote, so the raw bytes can be masked
        return mask_joined(detectors, texts, joined, worth, hits) if worth else None
    if b"\\" not in joined and detectors.are_quoted(worth, joined):
        return mask_joined(detectors, texts, joined, worth, hits)
    before = hits.size
    if b"\\" in joined or joined.count(SEPARATOR) != len(texts) - 1:
        masked = [_mask_document(detectors, text, hits) for text in texts]
        return masked if hits.size > before else None
    masked = list(texts)
    places = [place for place, text in enumerate(texts) if detectors.worth(text)]
    careful = [place for place in places if _NEEDS_CARE.search(texts[place])]
    easy = sorted(set(places).difference(careful))
    for some, mask in ((careful, _mask_together), (easy, _mask_raw)):
        replacements = mask(detectors, [texts[place] for place in some], hits) if some else None
        for place, new in zip(some, replacements or (), strict=False):
            masked[place] = new
    return masked if hits.size > before else None


def _mask_raw(detectors: Detectors, documents: list[bytes], hits: Hits) -> list[bytes] | None:
    joined = SEPARATOR.join(documents)
    worth = detectors.worth(joined)
    return mask_joined(detectors, documents, joined, worth, hits) if worth else None


def _mask_together(detectors: Detectors, documents: list[bytes], hits: Hits) -> list[bytes]:
    """Mask documents that need care but contain no escape, with the result of `_mask_document`.

    Without escapes, strings start and end at every quote, so those of all documents can be masked as one column.
    """
    pieces = SEPARATOR.join(documents).split(b'"')  # alternately outside and inside of strings
    strings = pieces[1::2]
    outside = b'"'.join(pieces[::2])
    if len(pieces) % 2 == 0 or SEPARATOR in b"".join(strings) or not _OUTSIDE.fullmatch(outside):
        return [_mask_document(detectors, document, hits) for document in documents]
    masked = list(mask_texts(detectors, strings, hits) or strings)
    _mask_all_named(detectors, pieces, masked, hits)
    _mask_long_numbers(detectors, pieces, hits)
    pieces[1::2] = masked
    masked_documents = b'"'.join(pieces).split(SEPARATOR)
    if len(masked_documents) != len(documents):
        raise RuntimeError(f"masking returned {len(masked_documents)} documents for {len(documents)}")
    return masked_documents


def _mask_all_named(detectors: Detectors, pieces: list[bytes], masked: list[bytes], hits: Hits) -> None:
    """Mask the strings in `masked` that are unchanged so far, with the context of their keys."""
    named = [
        place
        for place in range(1, len(masked))
        if pieces[2 * place].strip() == b":"
        and masked[place] == pieces[2 * place + 1]
        and len(pieces[2 * place - 1]) + 2 <= _KEY_REACH
    ]
    keyed_texts = [pieces[2 * place - 1] + b": " + pieces[2 * place + 1] for place in named]
    replacements = mask_texts(detectors, keyed_texts, Hits())
    for place, old, new in zip(named, keyed_texts, replacements or keyed_texts, strict=True):
        if new != old:
            masked[place] = _mask_named(detectors, pieces[2 * place - 1] + b": ", pieces[2 * place + 1], hits)


def _mask_long_numbers(detectors: Detectors, pieces: list[bytes], hits: Hits) -> None:
    places = [place for place in range(0, len(pieces), 2) if _LONG_NUMBER.search(pieces[place])]
    parts = [_ANY_NUMBER.split(pieces[place]) for place in places]
    numbers: list[tuple[list[bytes], int]] = []
    for place, part in zip(places, parts, strict=True):
        if place:  # the key is the preceding string
            part[:1] = [b"", b'"' + pieces[place - 1] + b'"', part[0]]
    for part in parts:
        numbers += [(part, index) for index in range(1, len(part), 2) if _may_be_value(part[index])]
    keyed_texts = SEPARATOR.join([_key_of(part, index) + part[index] for part, index in numbers])
    if not detectors.worth(keyed_texts) and all(len(part[index]) < _SHORTEST_CARD for part, index in numbers):
        return
    for part, index in numbers:
        _mask_number(detectors, part, index, hits)
    for place, part in zip(places, parts, strict=True):
        pieces[place] = b"".join(part[2 * bool(place) :])


# the latter is not JSON that must stay valid
def _mask_document(detectors: Detectors, document: bytes, hits: Hits) -> bytes:
    if not detectors.worth(document) and not _HIDING_ESCAPE.search(document):
        return document
    if not _NEEDS_CARE.search(document) or not _DOCUMENT.fullmatch(document):  # the latter is not valid JSON
        return mask_text(detectors, document, hits) or document
    parts = _VALUE.split(document)
    before = hits.size
    strings = [index for index in range(1, len(parts), 2) if parts[index].startswith(b'"')]
    _mask_strings(detectors, parts, strings, hits)
    for index in range(1, len(parts), 2):
        if _may_be_value(parts[index]):
            _mask_number(detectors, parts, index, hits)
    return b"".join(parts) if hits.size > before else document


def _may_be_value(number: bytes) -> bool:
    return len(number) >= SHORTEST_NUMBER and number.isdigit()


def _mask_number(detectors: Detectors, parts: list[bytes], index: int, hits: Hits) -> None:
    number = parts[index]
    if InfoType.CREDIT_CARD in detectors.types and _WHOLE_NUMBER.fullmatch(number) and is_card(number):
        hits.add(InfoType.CREDIT_CARD, 1, len(number))
        parts[index] = str(int(number[-4:])).encode()  # a JSON number has no leading zeros
        return
    keyed_text = _key_of(parts, index) + number
    for match in detectors.find(keyed_text):
        if len(keyed_text) - len(number) == match.start and match.end == len(keyed_text):
            hits.add(match.type, 1, len(number))
            parts[index] = b"0"


def _key_of(parts: list[bytes], index: int) -> bytes:
    """Return `key: ` for a value, or nothing in an array and for a key that is too long."""
    if index < 2 or parts[index - 1].strip() != b":" or len(parts[index - 2]) > _KEY_REACH:
        return b""
    return _unescape(parts[index - 2]) + b": "


def _mask_strings(detectors: Detectors, parts: list[bytes], indexes: list[int], hits: Hits) -> None:
    contents = [_unescape(parts[index]) for index in indexes]
    masked = mask_texts(detectors, contents, hits) or list(contents)
    for place, index in enumerate(indexes):
        if masked[place] == contents[place] and (key := _key_of(parts, index)):
            masked[place] = _mask_named(detectors, key, contents[place], hits)
    for index, old, new in zip(indexes, contents, masked, strict=True):
        if new != old:
            parts[index] = _escape(new) if b"\\" in parts[index] else b'"' + new + b'"'


def _mask_named(detectors: Detectors, key: bytes, content: bytes, hits: Hits) -> bytes:
    """Mask a value with the context of its key, as in a sentence."""
    value_hits = Hits()
    masked = mask_text(detectors, key + content, value_hits)
    if masked is None or not masked.startswith(key):  # the key itself is masked as a string of its own
        return content
    for kind, count in value_hits.counts.items():
        hits.add(kind, count, 0)
    hits.size += value_hits.size
    return masked[len(key) :]


def _unescape(string: bytes) -> bytes:
    """Return the content of a JSON string with quotes; in UTF-8 if it had escapes."""
    if b"\\" not in string:
        return string[1:-1]
    for encoding in ("utf-8", "latin-1"):  # escapes are ASCII in any encoding of the client
        try:
            return str(json.loads(string.decode(encoding), strict=False)).encode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            continue
        except ValueError:
            break
    return string[1:-1]


def _escape(text: bytes) -> bytes:
    """Return a JSON string in ASCII, which is valid in every encoding."""
    return json.dumps(text.decode("utf-8", "surrogatepass")).encode()
