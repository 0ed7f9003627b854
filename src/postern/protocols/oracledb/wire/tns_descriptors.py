"""Connect descriptors of Oracle Net: nested `(NAME=value)` pairs, as in `(CONNECT_DATA=(SERVICE_NAME=orders))`.

The parser is strict: a value is either pairs or text, names are words, and nothing follows the last parenthesis. Text
can be in quotation marks; a backslash in text quotes the next character.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from postern.errors import ProtocolViolation

MAX_DESCRIPTOR: Final = 16 * 1024  # bytes; what clients send has a few hundred
MAX_DEPTH: Final = 16
MAX_PAIRS: Final = 512

_SPACE: Final = re.compile(r"\s*")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]*")
_TEXT: Final = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|((?:[^()"\\]|\\.)*))\s*""", re.DOTALL)
_QUOTED: Final = re.compile(r"\\(.)", re.DOTALL)
_NEEDS_QUOTES: Final = re.compile(r"""[()"'\\=,\s]""")


@dataclass(frozen=True, slots=True)
class DescriptorNode:
    """One pair. Either `text` or `children` is its value. Names are in upper case."""

    name: str
    text: str = ""
    children: tuple[DescriptorNode, ...] = field(default=())

    def find(self, *path: str) -> DescriptorNode | None:
        """Return the first pair at that path of names below this one."""
        node = self
        for name in path:
            matches = [child for child in node.children if child.name == name]
            if not matches:
                return None
            node = matches[0]
        return node

    def text_at(self, *path: str) -> str:
        node = self.find(*path)
        return "" if node is None else node.text

    def encode(self) -> str:
        if self.children:
            return f"({self.name}={''.join([child.encode() for child in self.children])})"
        text = self.text
        if _NEEDS_QUOTES.search(text):
            text = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
        return f"({self.name}={text})"


class _DescriptorParser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._pos = 0
        self._pairs = 0

    def _skip(self) -> None:
        match = _SPACE.match(self._text, self._pos)
        self._pos = match.end() if match else self._pos

    def _take(self, sign: str) -> None:
        self._skip()
        if not self._text.startswith(sign, self._pos):
            raise ProtocolViolation(f"the connect descriptor lacks {sign!r} at character {self._pos}")
        self._pos += 1

    def pair(self, depth: int) -> DescriptorNode:
        self._pairs += 1
        if depth > MAX_DEPTH or self._pairs > MAX_PAIRS:
            raise ProtocolViolation("the connect descriptor is nested too deeply, or has too many parts")
        self._take("(")
        self._skip()
        match = _NAME.match(self._text, self._pos)
        if match is None:
            raise ProtocolViolation(f"the connect descriptor lacks a name at character {self._pos}")
        name = match[0].upper()
        self._pos = match.end()
        self._take("=")
        self._skip()
        if self._text.startswith("(", self._pos):
            children: list[DescriptorNode] = []
            while self._text.startswith("(", self._pos):
                children.append(self.pair(depth + 1))
                self._skip()
            self._take(")")
            return DescriptorNode(name, children=tuple(children))
        value = _TEXT.match(self._text, self._pos)
        assert value is not None  # it matches an empty text
        self._pos = value.end()
        self._take(")")
        if value[1] is not None:
            return DescriptorNode(name, _QUOTED.sub(r"\1", value[1]))
        return DescriptorNode(name, _QUOTED.sub(r"\1", value[2]).rstrip())

    def end(self) -> None:
        self._skip()
        if self._pos != len(self._text):
            raise ProtocolViolation(f"the connect descriptor continues after its end, at character {self._pos}")


def parse_descriptor(data: bytes) -> DescriptorNode:
    """Return the one pair of a descriptor. Raises ProtocolViolation."""
    if len(data) > MAX_DESCRIPTOR:
        raise ProtocolViolation(f"the connect descriptor has more than {MAX_DESCRIPTOR} bytes")
    try:
        text = data.rstrip(b"\0").decode("utf-8")
    except UnicodeDecodeError:
        raise ProtocolViolation("the connect descriptor is not valid UTF-8") from None
    parser = _DescriptorParser(text)
    node = parser.pair(1)
    parser.end()
    return node


@dataclass(frozen=True, slots=True)
class ConnectNames:
    """What a client's descriptor asks for. Exactly one of `service` and `sid` is set, or neither."""

    service: str
    sid: str
    program: str
    host: str
    user: str

    @property
    def database(self) -> str:
        return self.service or self.sid


def connect_names(root: DescriptorNode) -> ConnectNames:
    """Return the names in a client's descriptor. Raises ProtocolViolation for one that is ambiguous."""
    connect_data = root.find("CONNECT_DATA") if root.name != "CONNECT_DATA" else root
    if root.name not in ("DESCRIPTION", "CONNECT_DATA") or connect_data is None:
        raise ProtocolViolation("the connect descriptor has no CONNECT_DATA")
    names = [child.name for child in connect_data.children]
    if names.count("SERVICE_NAME") + names.count("SID") > 1:
        raise ProtocolViolation("the connect descriptor has several service names or SIDs")
    return ConnectNames(
        connect_data.text_at("SERVICE_NAME"),
        connect_data.text_at("SID"),
        connect_data.text_at("CID", "PROGRAM"),
        connect_data.text_at("CID", "HOST"),
        connect_data.text_at("CID", "USER"),
    )


def refusal_descriptor(code: int, text: str = "") -> bytes:
    """Encode the reason of a REFUSE: clients look for `(ERR=…)`, and show their own sentence for its number."""
    children = [
        DescriptorNode("VSNNUM", "0"),
        DescriptorNode("ERR", str(code)),
        DescriptorNode("ERROR_STACK", children=(_error(code, text),)),
    ]
    return DescriptorNode("DESCRIPTION", children=tuple(children)).encode().encode()


def _error(code: int, text: str) -> DescriptorNode:
    parts = [DescriptorNode("CODE", str(code)), DescriptorNode("EMFI", "4")]
    if text:
        parts.append(DescriptorNode("ARGS", text))
    return DescriptorNode("ERROR", children=tuple(parts))


def refusal_code(reason: bytes) -> int:
    """Return the number in the reason of a REFUSE, 0 if there is none."""
    match = re.search(rb"\(\s*(?:ERR|CODE)\s*=\s*(\d{1,9})\s*\)", reason, re.IGNORECASE)
    return int(match[1]) if match else 0


@dataclass(frozen=True, slots=True)
class RedirectAddress:
    """Where a listener sends a client: another address, and the descriptor to present there, if it is another one.

    `encrypted`: the address is one for TLS.
    """

    host: str
    port: int
    encrypted: bool
    connect_data: bytes


def parse_redirect(data: bytes) -> RedirectAddress:
    """Read the data of a REDIRECT: an address, and after a zero byte the descriptor for it."""
    address, _, connect_data = data.partition(b"\0")
    root = parse_descriptor(address)
    node = root if root.name == "ADDRESS" else root.find("ADDRESS") or root.find("ADDRESS_LIST", "ADDRESS")
    port = "" if node is None else node.text_at("PORT")
    if node is None or not node.text_at("HOST") or not port.isascii() or not port.isdigit() or len(port) > 5:
        raise ProtocolViolation("the target's redirect names no address")
    return RedirectAddress(
        node.text_at("HOST"), int(port), node.text_at("PROTOCOL").upper() == "TCPS", connect_data.rstrip(b"\0")
    )
