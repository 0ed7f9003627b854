"""Texts of an XML answer, and where they are, so that they can be replaced without writing the document anew.

Answers of the query protocol have neither a document type nor processing instructions; one that has is refused.
"""

from __future__ import annotations

import re
from typing import Final
from xml.sax.saxutils import escape

_MAX_DEPTH: Final = 64
_PART: Final = re.compile(r"<[^<>]*>|[^<>]+")
_OPEN: Final = re.compile(r"<([A-Za-z_][\w.:-]*)(?:\s+[\w.:-]+\s*=\s*(?:\"[^\"]*\"|'[^']*'))*\s*(/?)>")
_CLOSE: Final = re.compile(r"</([A-Za-z_][\w.:-]*)\s*>")
_DECLARATION: Final = re.compile(r"<\?xml[^<>]*\?>")
_ENTITY: Final = re.compile(r"&(?:#([0-9]{1,7})|#x([0-9A-Fa-f]{1,6})|(lt|gt|amp|quot|apos));")
_NAMED: Final = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
_LISTS: Final = frozenset({"member", "entry"})


class XmlTexts:
    """`texts` are those that are not blank, unescaped; `paths` are the names of elements around each."""

    def __init__(self, body: bytes) -> None:
        """Raises ValueError."""
        try:
            document = body.decode()
        except UnicodeDecodeError:
            raise ValueError("the answer is not UTF-8") from None
        self._parts = _PART.findall(document)
        if sum(map(len, self._parts)) != len(document):
            raise ValueError("the answer is not valid XML")
        self.texts: list[str] = []
        self.paths: list[tuple[str, ...]] = []
        self._places: list[int] = []
        self._read()

    def _read(self) -> None:
        names: list[str] = []
        for place, part in enumerate(self._parts):
            if not part.startswith("<"):
                if part.strip():
                    self._add(place, part, names)
            elif (match := _CLOSE.fullmatch(part)) is not None:
                if not names or names.pop() != match[1]:
                    raise ValueError("an element of the answer ends twice, or not at all")
            elif (match := _OPEN.fullmatch(part)) is not None:
                if not match[2]:
                    names.append(match[1])
                if len(names) > _MAX_DEPTH:
                    raise ValueError("the answer is nested too deeply")
            elif place != 0 or _DECLARATION.fullmatch(part) is None:
                raise ValueError("the answer has something else than elements and texts")
        if names:
            raise ValueError("the answer is cut")

    def _add(self, place: int, part: str, names: list[str]) -> None:
        if not names:
            raise ValueError("the answer has a text outside of its elements")
        self.texts.append(_unescape(part))
        self.paths.append(tuple(name for name in names if name not in _LISTS))
        self._places.append(place)

    def encode(self) -> bytes:
        """Return the document with the current `texts`; None has become an empty one."""
        parts = self._parts.copy()
        for place, text in zip(self._places, self.texts, strict=True):
            parts[place] = escape(text or "")
        return "".join(parts).encode()


def _unescape(text: str) -> str:
    if text.count("&") != len(_ENTITY.findall(text)):
        raise ValueError("the answer has an entity that XML does not define")
    return _ENTITY.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    if match[3]:
        return _NAMED[match[3]]
    number = int(match[1]) if match[1] else int(match[2], 16)
    if number > 0x10FFFF:
        raise ValueError("the answer has a character that does not exist")
    return chr(number)
