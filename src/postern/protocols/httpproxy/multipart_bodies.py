"""Bodies of several parts, as forms with files are, as text.

Applications find parts in different ways, so this finds more rather than fewer: a boundary counts wherever it is, and a
part is left out only if it is a file that is no text. What some application decodes, and we do not, is an error.
"""

from __future__ import annotations

import re
from typing import Final

from postern.protocols.http.content.charsets import codec_of
from postern.protocols.http.content.content_types import is_textual
from postern.protocols.http.http_heads import RequestHead, first_value

_BOUNDARY: Final = re.compile(r"\bboundary(\*[^=;]*)?\s*=\s*(?:\"([^\"\\]{1,200})\"|([^\s;\"]{1,200}))", re.IGNORECASE)
_HEAD_END: Final = re.compile(rb"\r?\n\r?\n")
_FOLD: Final = re.compile(r"\r?\n[ \t]+")
_CODING: Final = re.compile(r"content-transfer-encoding\s*:\s*([^\r\n;]*)", re.IGNORECASE)
_CHARSET: Final = re.compile(r"charset\s*=\s*\"?([^\s;\"]+)", re.IGNORECASE)
AS_IS_TRANSFERS: Final = frozenset({"", "7bit", "8bit", "binary"})


class MultipartError(ValueError):
    """The body cannot be judged as text."""


def is_multipart(head: RequestHead) -> bool:
    return first_value(head.headers, b"content-type").lstrip().lower().startswith(b"multipart/")


def multipart_text(head: RequestHead, body: bytes) -> str:
    """Return a body as text, without files that are no text. Raises MultipartError and CharsetError."""
    boundary = boundary_of(first_value(head.headers, b"content-type").decode("latin-1"))
    if not boundary and not is_textual(body):
        raise MultipartError("its type does not say how its parts are separated")
    delimiter = b"--" + boundary
    parts = body.split(delimiter) if boundary else [body]
    return delimiter.decode("latin-1").join([_part_text(part) for part in parts])


def boundary_of(content_type: str) -> bytes:
    """Return what separates the parts; nothing if that is not clear."""
    found = _BOUNDARY.findall(content_type)
    if len(found) != 1 or found[0][0]:
        return b""
    _, quoted, plain = found[0]
    return str(quoted or plain).encode("latin-1")


def _part_text(part: bytes) -> str:
    end = _HEAD_END.search(part)
    head = _FOLD.sub(" ", part[: end.start()].decode("latin-1")) if end else ""
    coding = _CODING.search(head)
    if coding and coding.group(1).strip().lower() not in AS_IS_TRANSFERS:
        raise MultipartError("a part of it has a Content-Transfer-Encoding")
    charset = _CHARSET.search(head)
    if charset and codec_of(charset.group(1).lower(), b""):
        raise MultipartError(f"a part of it is in the charset {charset.group(1)[:40]!r}")
    is_file = "filename" in head.lower() and "multipart/" not in head.lower()
    if end and is_file and not is_textual(part[end.end() :]):
        return f"{part[: end.end()].decode('utf-8', 'replace')}[{len(part) - end.end()} bytes of a file]\r\n"
    return part.decode("utf-8", "replace")
