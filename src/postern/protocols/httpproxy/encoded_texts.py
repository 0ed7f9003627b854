r"""Texts with escapes, decoded for rules and written again.

    mail&#64;example.com      references of HTML and XML, by number or name
    mail%40example.com        escapes of URLs
    mail\u0040example.com     escapes of scripts
    data:text/html;base64,…   texts in URLs

A run is a part of a line without quotes and angle brackets that has an escape. Rules see each run decoded, up to
`_LEVELS` times: an escape can be written with escapes. What a rule changes is escaped again, and the rest of the run
keeps its bytes, so that a changed text never becomes markup, the end of a string, or a further parameter.

All texts are bytes of UTF-8 or another superset of ASCII.
"""

from __future__ import annotations

import html
import re
from base64 import b64decode, b64encode
from bisect import bisect_right
from functools import lru_cache
from operator import itemgetter
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

_LEVELS: Final = 3
_BEFORE: Final = 1024  # bytes of a run before its first escape
_DELIMITER: Final = re.compile(rb"[<>\"'`\r\n]")
# Each begins with a plain byte, by which the search is fast.
_REFERENCE: Final = rb"&(?:#[xX][0-9a-fA-F]++|#[0-9]++|[A-Za-z][0-9A-Za-z]{1,31}+);?"
_PERCENT: Final = rb"%(?:[0-9A-Fa-f]{2}(?:%[0-9A-Fa-f]{2})*+|u[0-9A-Fa-f]{4})"
_SCRIPT: Final = (
    rb"\\\\{0,7}+(?:u[0-9A-Fa-f]{4}(?:\\{1,8}+u[dD][c-fC-F][0-9A-Fa-f]{2})?+|u\{[0-9A-Fa-f]++\}|x[0-9A-Fa-f]{2})"
)
_ESCAPE: Final = re.compile(rb"|".join((_REFERENCE, _PERCENT, _SCRIPT)))
_ESCAPE_IN_JSON: Final = re.compile(rb"|".join((_REFERENCE, _PERCENT)))  # the others are JSON's own
_HEX: Final = re.compile(rb"[0-9A-Fa-f]{2,}")
_MOST_DIGITS: Final = 10
_HIGH_SURROGATES: Final = range(0xD800, 0xDC00)
_SURROGATES: Final = range(0xD800, 0xE000)
_MOST: Final = 0x10FFFF
# What is shown as a space, or as nothing.
_SHOWN: Final = {"\xa0": " ", "\xad": "", "\u200b": "", "\u200c": "", "\u200d": "", "\u2060": "", "\ufeff": ""}
_PLAIN: Final = re.compile(r"[ !#-%(-;=?-\[\]-~]*")  # what needs no reference, and no escape in JSON
_PLAIN_IN_SCRIPT: Final = re.compile(r"[\w .,:;@*()\[\]-]", re.ASCII)
_ADDRESS_ENTITY: Final = re.compile(rb"<!ENTITY\s+[\w.-]+\s+[\"']https?://[\w./#~-]*[\"']\s*>")
_DATA_URL: Final = re.compile(rb"\bdata:[\w.+-]{0,60}/?[\w.+;=-]{0,100};base64,([A-Za-z0-9+/]+={0,2})", re.IGNORECASE)
_CONTROL: Final = re.compile(rb"[\0-\x08\x0e-\x1f]")
_COMMENTS: Final = ((b"<!--", b"-->"), (b"<?", b"?>"))


class EncodedTexts:
    """The runs of a text. `texts` are what they mean."""

    def __init__(self, data: bytes, *, is_json: bool = False) -> None:
        self._data = data
        escape = _ESCAPE_IN_JSON if is_json else _ESCAPE
        self._runs: list[tuple[int, int, list[_Level]]] = []
        urls = _find_data_urls(data)
        for start, end, text in urls:
            self._runs.append((start, end, [_Base64Level(text), *_decode_levels(text, _ESCAPE)]))
        for start, end in _find_runs(data, escape):
            for first, last in _without(start, end, urls) if urls else [(start, end)]:
                levels = _decode_levels(data[first:last], escape)
                if levels:
                    self._runs.append((first, last, levels))
        if urls:
            self._runs.sort(key=itemgetter(0))
        self.texts = [levels[-1].decoded for _, _, levels in self._runs]

    def replace(self, texts: list[bytes]) -> bytes:
        """Return the text with other runs, which are as many as `texts`."""
        parts: list[bytes] = []
        at = 0
        for (start, end, levels), old, new in zip(self._runs, self.texts, texts, strict=True):
            if new == old:
                continue
            for level in reversed(levels):
                new = level.replace(new)
            parts += (self._data[at:start], new)
            at = end
        parts.append(self._data[at:])
        return b"".join(parts)


def encoded_texts(data: bytes, *, is_json: bool = False) -> EncodedTexts | None:
    """Return the runs of a text, or None if it has no escapes."""
    if b"&" not in data and b"%" not in data and (is_json or b"\\" not in data) and b"base64," not in data:
        return None
    runs = EncodedTexts(data, is_json=is_json)
    return runs if runs.texts else None


def decode_escapes(data: bytes) -> bytes:
    """Return a whole text with its escapes decoded, and without what markup can hide a word by."""
    data = _without_markup(data) if b"<!" in data or b"<?" in data else data
    levels = _decode_levels(data, _ESCAPE)
    decoded = levels[-1].decoded if levels else data
    return b"\n".join([decoded, *[decode_escapes(text) for _, _, text in _find_data_urls(decoded)]])


def decode_value(value: bytes) -> bytes:
    """Return what a value of JSON means if it is a part of a page or of a URL."""
    levels = _decode_levels(value, _ESCAPE_IN_JSON)
    return levels[-1].decoded if levels else value


def replace_value(value: bytes, new: bytes) -> bytes:
    """Return the value that means `new`, written with the same kind of escapes."""
    for level in reversed(_decode_levels(value, _ESCAPE_IN_JSON)):
        new = level.replace(new)
    return new


def _without_markup(data: bytes) -> bytes:
    """Return a text without comments and the like, which XML allows within a word."""
    for begin, end in _COMMENTS:
        parts: list[bytes] = []
        at = 0
        while (start := data.find(begin, at)) >= 0 and (stop := data.find(end, start + len(begin))) >= 0:
            parts.append(data[at:start])
            at = stop + len(end)
        data = b"".join([*parts, data[at:]])
    return data.replace(b"<![CDATA[", b"").replace(b"]]>", b"")


def declares_entities(data: bytes) -> bool:
    """Return whether XML declares references of its own, besides names for web addresses."""
    return data.count(b"<!ENTITY") > len(_ADDRESS_ENTITY.findall(data))


class _Level:
    """A text, and what it means when it is decoded once."""

    __slots__ = ("_decoded_ends", "_decoded_starts", "_ends", "_escape", "_starts", "_text", "decoded")

    def __init__(self, text: bytes, decoded: bytes, escape: re.Pattern[bytes]) -> None:
        self._text = text
        self._escape = escape
        self.decoded = decoded

    def _measure(self) -> None:
        """Find the escapes: their places in the text, and in what is decoded."""
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._decoded_starts: list[int] = []
        self._decoded_ends: list[int] = []
        shift = 0
        for match in self._escape.finditer(self._text):
            start, end = match.span()
            size = len(_decode(match[0]))
            self._starts.append(start)
            self._ends.append(end)
            self._decoded_starts.append(start + shift)
            self._decoded_ends.append(start + shift + size)
            shift += size - (end - start)

    def replace(self, new: bytes) -> bytes:
        """Return the text that means `new`: only what differs is written again."""
        self._measure()
        old = self.decoded
        first = _count_alike(old, new)
        most = min(len(old), len(new)) - first
        last = _count_alike(old[::-1][:most], new[::-1][:most])
        start, before = self._place(first)
        end, after = self._place(len(old) - last, is_end=True)
        inner = old[before:first] + new[first : len(new) - last] + old[len(old) - last : after]
        kinds = {self._text[place] for place in self._starts if start <= place < end}
        return self._text[:start] + _escape(inner, kinds) + self._text[end:]

    def _place(self, at: int, *, is_end: bool = False) -> tuple[int, int]:
        """Return the place in the text of a place in what is decoded, and that of the latter: never in an escape."""
        number = bisect_right(self._decoded_starts, at) - 1
        if number < 0:
            return at, at
        if at < self._decoded_ends[number] or (at == self._decoded_starts[number] and not is_end):
            if is_end and at > self._decoded_starts[number]:
                return self._ends[number], self._decoded_ends[number]
            return self._starts[number], self._decoded_starts[number]
        return self._ends[number] + at - self._decoded_ends[number], at


def _count_alike(first: bytes, second: bytes) -> int:
    """Return how many bytes at the beginning are the same."""
    both = zip(first, second, strict=False)
    return next((place for place, (one, other) in enumerate(both) if one != other), min(len(first), len(second)))


class _Base64Level(_Level):
    """A text in Base64. It is written again as a whole."""

    __slots__ = ()

    def __init__(self, decoded: bytes) -> None:
        self.decoded = decoded

    def replace(self, new: bytes) -> bytes:
        return b64encode(new)


def _find_data_urls(data: bytes) -> list[tuple[int, int, bytes]]:
    """Return the places of texts in URLs of `data:`, and the texts."""
    found: list[tuple[int, int, bytes]] = []
    for match in _DATA_URL.finditer(data) if b"base64," in data else ():
        content = match[1].rstrip(b"=")
        try:
            text = b64decode(content + b"=" * (-len(content) % 4))
            text.decode("utf-8")
        except ValueError:
            continue
        if _CONTROL.search(text) is None and text:
            found.append((*match.span(1), text))
    return found


def _without(start: int, end: int, urls: list[tuple[int, int, bytes]]) -> list[tuple[int, int]]:
    """Return what of a run is in none of these places."""
    parts: list[tuple[int, int]] = []
    for first, last, _ in urls:
        if start < last and first < end:
            parts.append((start, max(first, start)))
            start = min(last, end)
    return [(first, last) for first, last in [*parts, (start, end)] if first < last]


def _decode_levels(text: bytes, escape: re.Pattern[bytes]) -> list[_Level]:
    levels: list[_Level] = []
    while len(levels) < _LEVELS and (b"&" in text or b"%" in text or b"\\" in text):
        decoded = escape.sub(_decode_match, text)
        if decoded == text:
            break
        levels.append(_Level(text, decoded, escape))
        text = decoded
    return levels


def _decode_match(match: re.Match[bytes]) -> bytes:
    return _decode(match[0])


def _find_runs(data: bytes, escape: re.Pattern[bytes]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    end = 0
    match = escape.search(data)
    while match is not None:
        begin = match.start()
        before = data[max(end, begin - _BEFORE) : begin]
        last = _DELIMITER.search(before[::-1])
        delimiter = _DELIMITER.search(data, match.end())
        end = len(data) if delimiter is None else delimiter.start()
        runs.append((begin - (len(before) if last is None else last.start()), end))
        match = escape.search(data, end)
    return runs


@lru_cache(maxsize=1024)
def _decode(escape: bytes) -> bytes:
    """Return what an escape means; itself for one that means nothing."""
    if escape.startswith((b"%u", b"\\")):
        return _decode_script(escape)
    if escape.startswith(b"%"):
        return unquote_to_bytes(escape)
    name = escape.decode("ascii")
    if name.startswith("&#"):
        is_hex = name[2] in "xX"
        digits = name[3 if is_hex else 2 :].rstrip(";").lstrip("0")[:_MOST_DIGITS] or "0"
        name = f"&#{int(digits, 16 if is_hex else 10)};"
    return _encode_shown(html.unescape(name))


def _decode_script(escape: bytes) -> bytes:
    numbers = [int(digits.lstrip(b"0")[:_MOST_DIGITS] or b"0", 16) for digits in _HEX.findall(escape)]
    if len(numbers) == 2 and numbers[0] in _HIGH_SURROGATES:
        numbers = [0x10000 + (numbers[0] - 0xD800) * 0x400 + numbers[1] - 0xDC00]
    if any(number > _MOST or number in _SURROGATES for number in numbers) or not numbers:
        return escape
    return _encode_shown("".join(map(chr, numbers)))


def _encode_shown(text: str) -> bytes:
    return _SHOWN.get(text, text).encode("utf-8", "replace")


def _escape(text: bytes, kinds: set[int]) -> bytes:
    """Return a text written with escapes of one of these kinds, which are the bytes that they begin with."""
    if not kinds:
        return text
    if ord("%") in kinds:
        return quote_from_bytes(text, safe="*").encode()
    try:
        plain = text.decode("utf-8")
    except UnicodeDecodeError:
        plain = text.decode("latin-1")
    if ord("\\") in kinds:
        return "".join([sign if _PLAIN_IN_SCRIPT.match(sign) else _script_escape(sign) for sign in plain]).encode()
    return "".join([sign if _PLAIN.fullmatch(sign) else f"&#{ord(sign)};" for sign in plain]).encode()


def _script_escape(sign: str) -> str:
    units = sign.encode("utf-16-be")
    return "".join([f"\\u{int.from_bytes(units[at : at + 2], 'big'):04x}" for at in range(0, len(units), 2)])
