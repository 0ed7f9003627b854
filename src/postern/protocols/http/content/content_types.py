"""Kinds of bodies, by their content type and their first bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from postern.protocols.http.http_heads import Headers, first_value, values_of


class BodyKind(Enum):
    """How the content of a body is read."""

    JSON = "JSON"
    JSON_LINES = "JSON lines"  # NDJSON, and JSON text sequences
    EVENTS = "an event stream"
    FORM = "form data"
    TEXT = "text"  # also HTML and XML
    CODE = "code"  # style sheets and scripts: text that shows no fields of a record
    MEDIA = "media"  # images, fonts, sound and video: nothing in them is a text
    UNREADABLE = "unreadable"
    UNKNOWN = "unknown"  # no type is given: the first bytes tell


SNIFFED: Final = 512  # bytes that tell whether content is text or media

_JSON_LINES: Final = frozenset(
    {
        "application/x-ndjson",
        "application/ndjson",
        "application/jsonl",
        "application/json-seq",
        "application/x-jsonlines",
    }
)
_CODE: Final = frozenset(
    {
        *("text/css", "text/javascript", "application/javascript", "application/x-javascript"),
        *("application/ecmascript", "text/ecmascript"),
    }
)
_TEXTS: Final = frozenset(
    {
        *("application/xml", "application/xhtml+xml", "image/svg+xml", "application/yaml", "application/x-yaml"),
        *("application/graphql", "application/toml", "application/sql", "application/x-sh", "application/csv"),
        *("application/x-httpd-php", "application/rtf", "message/rfc822", "message/http", "application/http"),
        *("application/pgp-signature", "application/pem-certificate-chain", "application/x-pem-file"),
    }
)
_NAMES: Final = {
    "application/pdf": "a PDF document",
    "application/zip": "an archive",
    "application/gzip": "an archive",
    "application/x-tar": "an archive",
    "application/x-7z-compressed": "an archive",
    "application/grpc": "a gRPC message",
    "application/protobuf": "a protocol buffer",
    "application/x-protobuf": "a protocol buffer",
}
_TYPE: Final = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+*-]+")
_CHARSET: Final = re.compile(r";\s*charset\s*=\s*\"?([^\s;\"]+)", re.IGNORECASE)
_MEDIA_STARTS: Final = (
    *(b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"BM", b"\0\0\1\0", b"\0\0\2\0"),
    *(b"II*\0", b"MM\0*", b"wOFF", b"wOF2", b"\0\1\0\0", b"OTTO", b"true", b"ttcf", b"OggS", b"\x1aE\xdf\xa3"),
    *(b"ID3", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2", b"fLaC", b"\0asm", b"FLV\1", b"\xff\xf1", b"\xff\xf9"),
)
_CONTROLS: Final = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f]")


@dataclass(frozen=True, slots=True)
class ContentType:
    """A content type. `charset` is in lower case and empty if none is given; `name` describes it for users."""

    type: str
    charset: str
    kind: BodyKind

    @property
    def name(self) -> str:
        family = self.type.removesuffix("+proto")
        for prefix, name in _NAMES.items():
            if family.startswith(prefix):
                return name
        return f"content of the type {self.type}" if self.type else "content without a type"


def content_type_of(headers: Headers) -> ContentType:
    """Return the content type that headers name. Several different ones are unreadable: clients choose one."""
    values = [value.decode("latin-1") for value in values_of(headers, b"content-type")]
    if len(set(values)) > 1:
        return ContentType("several", "", BodyKind.UNREADABLE)
    return parse_content_type(values[0] if values else "")


def parse_content_type(value: str) -> ContentType:
    essence = value.partition(";")[0].strip().lower()
    charset = _CHARSET.search(value)
    name = charset.group(1).lower() if charset else ""
    if not essence:
        return ContentType("", name, BodyKind.UNKNOWN)
    if not _TYPE.fullmatch(essence):
        return ContentType("an unknown type", name, BodyKind.UNREADABLE)
    return ContentType(essence, name, _kind_of(essence))


def _kind_of(essence: str) -> BodyKind:
    family, _, subtype = essence.partition("/")
    if essence in _JSON_LINES or "stream+json" in essence or subtype.endswith("+json-seq"):
        return BodyKind.JSON_LINES
    if subtype == "json" or subtype.endswith("+json") or essence in ("application/json5", "application/csp-report"):
        return BodyKind.JSON
    if essence == "text/event-stream":
        return BodyKind.EVENTS
    if essence == "application/x-www-form-urlencoded":
        return BodyKind.FORM
    if essence in _CODE:
        return BodyKind.CODE
    if family == "text" or essence in _TEXTS or subtype.endswith(("+xml", "+yaml")):
        return BodyKind.TEXT
    if family in ("image", "font", "audio", "video") or essence == "application/font-woff":
        return BodyKind.MEDIA
    return BodyKind.UNREADABLE


def encodings_of(headers: Headers) -> list[str]:
    """Return the content codings in the order in which they were applied, in lower case, without `identity`."""
    value = b",".join(values_of(headers, b"content-encoding")).decode("latin-1")
    names = [name.strip().lower() for name in value.split(",")]
    return [name for name in names if name not in ("", "identity")]


def is_media(beginning: bytes) -> bool:
    """Return whether these are the first bytes of an image, a font, sound or video."""
    if beginning.startswith(_MEDIA_STARTS) or beginning[4:8] in (b"ftyp", b"moov", b"mdat"):
        return True
    return beginning.startswith(b"RIFF") and beginning[8:12] in (b"WEBP", b"WAVE", b"AVI ")


def is_textual(beginning: bytes) -> bool:
    """Return whether these can be the first bytes of a text in an encoding that contains ASCII."""
    return _CONTROLS.search(beginning) is None


def is_grpc(headers: Headers) -> bool:
    return first_value(headers, b"content-type").lower().startswith(b"application/grpc")
