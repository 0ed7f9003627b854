r"""Masking of copied lines by column: the text between two tabs is a text of its own.

No value of a detector contains a tab, and all treat it as an edge. The result is that of a search in whole lines, but
columns with values of one kind are masked much faster than lines with several kinds.

Escapes of a copy do not hide values: `\n` before a number is the end of a line, and not a letter that touches the
number; `\\u0040` in a document is an `@`, and `\\x61` is a byte.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from postern.inspection.masking.detector import SEPARATOR
from postern.inspection.masking.detectors import Detectors
from postern.inspection.masking.joined_texts import Hits, mask_text, mask_texts
from postern.interception.copied_fields import LINE_END, join_fields, split_fields

_TAB = b"\t"
_HIDING = re.compile(rb"\\(?:[bfnrtvx]|u00)")
_CONTROL = re.compile(rb"\\(\\|[bfnrtv])")
_LEADS = bytes((1, *range(14, 32)))
_SIGNS = {letter: b"%c" % place for place, letter in enumerate((b"b", b"f", b"n", b"r", b"t", b"v"), 2)}
_LETTERS = {sign: letter for letter, sign in _SIGNS.items()}
# Characters without special meaning in documents and copies.
_ENCODED = re.compile(rb"\\{1,2}u00(2[5bdefBDEF]|3[0-9aA]|40|[46][1-9a-fA-F]|5[0-9aAfF]|7[0-9aA])")
_BYTES = re.compile(rb"(\\{1,2}x)((?:[0-9a-f]{2})+)(?![0-9a-f])")


def mask_lines(detectors: Detectors, lines: Sequence[bytes], hits: Hits) -> list[bytes] | None:
    """Mask each line on its own; return None if there is nothing to mask. Adds to `hits`.

    Raises ValueError for lines in which escapes cannot be distinguished from other bytes.
    """
    joined = SEPARATOR.join(lines)
    if _HIDING.search(joined) is None:
        return _mask_plain(detectors, lines, joined, hits)
    lead = next((b"%c" % sign for sign in _LEADS if sign not in joined), None)
    if lead is None:
        raise ValueError("copied lines contain all characters that could mark escapes")
    read = [_read(line, lead, detectors, hits) for line in lines]
    masked = _mask_plain(detectors, read, SEPARATOR.join(read), hits) or read
    written = re.compile(re.escape(lead) + rb"([\x02-\x07])")
    results = [
        old
        if new == _read(old, lead, detectors, Hits(), bytes_too=False)
        else written.sub(lambda each: b"\\" + _LETTERS[each[1]], new)
        for old, new in zip(lines, masked, strict=True)
    ]
    return None if results == list(lines) else results


def _read(line: bytes, lead: bytes, detectors: Detectors, hits: Hits, *, bytes_too: bool = True) -> bytes:
    """Replace escapes by control characters, which are edges like the characters that they stand for."""
    line = _ENCODED.sub(lambda match: bytes.fromhex(match[1].decode()), line)
    if bytes_too:
        line = _BYTES.sub(lambda match: _masked_bytes(match, detectors, hits), line)
    return _CONTROL.sub(lambda match: match[0] if match[1] == b"\\" else lead + _SIGNS[match[1]], line)


def _masked_bytes(match: re.Match[bytes], detectors: Detectors, hits: Hits) -> bytes:
    masked = mask_text(detectors, bytes.fromhex(match[2].decode()), hits)
    return match[0] if masked is None else match[1] + masked.hex().encode()


def _mask_plain(detectors: Detectors, lines: Sequence[bytes], joined: bytes, hits: Hits) -> list[bytes] | None:
    if not detectors.may_find(joined):
        return None
    fields = split_fields(b"".join(lines), _TAB, len(lines))
    if fields is None:
        return mask_texts(detectors, lines, hits)
    width = fields.index(LINE_END)
    is_changed = False
    for place in range(width):
        masked = mask_texts(detectors, fields[place :: width + 1], hits)
        if masked is not None:
            fields[place :: width + 1] = masked
            is_changed = True
    return join_fields(fields, width, _TAB) if is_changed else None
