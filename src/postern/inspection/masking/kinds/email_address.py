"""E-mail addresses: a local part, an `@`, and a domain of at least two labels."""

from __future__ import annotations

import re
from operator import eq

from postern.domain.rules.masking import InfoType
from postern.inspection.masking.detector import Detector, MaskedText, Span, ValueForm, Whole, replaced_by

MASK = b"****@****"

# Includes letters of any alphabet (as UTF-8). Quotes, braces, `/`, `?`, `|` and `*` are valid in addresses, but more
# often surround one, so they are excluded.
_LOCAL = rb"0-9A-Za-z!#$%&+=^_~.\x80-\xff-"
_DOMAIN = rb"@(?:[0-9A-Za-z\x80-\xff-]%(atomic)s\.)+[A-Za-z\x80-\xff][0-9A-Za-z\x80-\xff-]*[0-9A-Za-z\x80-\xff]"
_LOCAL_BYTES = bytes(code for code in range(256) if re.match(rb"[" + _LOCAL + rb"]", bytes((code,))))

_AT_DOMAIN = re.compile(rb"(" + _DOMAIN % {b"atomic": b"++"} + rb")")
_ADDRESS = rb"[" + _LOCAL + rb"]+" + _DOMAIN % {b"atomic": b"+"}


def _mask(text: bytes) -> MaskedText:
    """Split at each `@domain`; the local part is the end of the piece before it."""
    pieces = _AT_DOMAIN.split(text)
    if len(pieces) == 1:
        return MaskedText(text)
    befores = pieces[:-1:2]
    if b"'" in text:
        fronts = [_without_local_part(piece) for piece in befores]
    else:  # the same, faster
        fronts = [piece.rstrip(_LOCAL_BYTES) for piece in befores]
    if not any(map(eq, fronts, befores)):  # every address has a local part
        fronts.append(pieces[-1])
        changed = MASK.join(fronts)
        hits = len(fronts) - 1
        return MaskedText(changed, hits, len(text) - len(changed) + hits * len(MASK))
    return _mask_each(pieces, fronts)


def _mask_each(pieces: list[bytes], fronts: list[bytes]) -> MaskedText:
    """Mask pieces if some `@domain` has no local part, and so stays."""
    parts: list[bytes] = []
    hits = size = 0
    for piece, domain, front in zip(pieces[:-1:2], pieces[1::2], fronts, strict=True):
        if len(front) < len(piece):
            parts += (front, MASK)
            hits += 1
            size += len(piece) - len(front) + len(domain)
        else:
            parts += (piece, domain)
    parts.append(pieces[-1])
    return MaskedText(b"".join(parts), hits, size)


def _find(text: bytes) -> list[Span]:
    spans: list[Span] = []
    at = 0
    for domain in _AT_DOMAIN.finditer(text):
        piece = text[at : domain.start()]
        front = _without_local_part(piece)
        if len(front) < len(piece):
            spans.append((at + len(front), domain.end()))
        at = domain.end()
    return spans


def _without_local_part(piece: bytes) -> bytes:
    front = piece.rstrip(_LOCAL_BYTES)
    if not front.endswith(b"'") or len(front) == len(piece):
        return front
    # An apostrophe inside is part of the name (o'brien@…); a leading one is a quote.
    end = len(front)
    for before in reversed(front[:-1].split(b"'")):
        name = len(before) - len(before.rstrip(_LOCAL_BYTES))
        if name:
            end -= name + 1
        if not name or name < len(before):
            break
    return piece[:end]


EMAIL_ADDRESS = Detector(
    InfoType.EMAIL_ADDRESS,
    (ValueForm(rb"@(?:[0-9A-Za-z\x80-\xff-]+\.)+[A-Za-z\x80-\xff]", _mask, _find, 0.95, is_quoted=True),),
    Whole(_ADDRESS, replaced_by(MASK)),
    "email, e mail, mail, mailto",
)
