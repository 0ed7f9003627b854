"""A request as text: what rules judge, reviewers read, and the recording has.

    POST /path?query=1
    Content-Type: application/json

    {"a": 1}

Secrets are replaced (`http_redaction`). A body that is no text is described in brackets. What an application would
decode (escapes in the URL, in a form, in JSON) is judged decoded as well: `decoded_texts`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import unquote_plus

from postern.protocols.http.content.charsets import CharsetError, Transcoder, codec_of
from postern.protocols.http.content.content_codings import CodedContentError, decode_whole
from postern.protocols.http.content.content_types import (
    BodyKind,
    ContentType,
    content_type_of,
    encodings_of,
    is_textual,
)
from postern.protocols.http.http_heads import REDACTED, Headers, RequestHead
from postern.protocols.http.http_redaction import redact_request_headers, redact_url
from postern.protocols.httpproxy.encoded_texts import declares_entities, decode_escapes
from postern.protocols.httpproxy.multipart_bodies import MultipartError, is_multipart, multipart_text

_OPAQUE: Final = frozenset({BodyKind.MEDIA, BodyKind.UNREADABLE, BodyKind.UNKNOWN})
_TEXT: Final = REDACTED.decode()
_HIDDEN_FIELDS: Final = (
    r"pass(?:word|wd|phrase)?|pwd|(?:client_?|api_?)?secret|(?:access|refresh|id|auth)_?token|"
    r"(?:api|private|secret)_?key|(?:new|old|current)_?password|password_?(?:confirmation|again|1|2)|otp"
)
_JSON_SECRET: Final = re.compile(rf'("(?:{_HIDDEN_FIELDS})"\s*:\s*")(?:[^"\\]|\\.)+(")', re.IGNORECASE | re.DOTALL)
_FORM_SECRET: Final = re.compile(rf"((?:^|&)(?:{_HIDDEN_FIELDS})=)[^&]+", re.IGNORECASE)
_PART_SECRET: Final = re.compile(rf'(name="?(?:{_HIDDEN_FIELDS})"?\r?\n(?:[^\r\n]+\r?\n)*\r?\n)[^\r\n]+', re.IGNORECASE)
_JSON_ESCAPE: Final = re.compile(r"\\[u/]")


class UnreadableBodyError(ValueError):
    """The body cannot be judged as text."""


@dataclass(frozen=True, slots=True)
class BodyText:
    """A body as text, or its description. `has_more`: only the beginning was read. `kind` is that of the content.

    `decoded` is a compressed body as it was judged.
    """

    text: str
    kind: BodyKind = BodyKind.TEXT
    has_more: bool = False
    decoded: bytes | None = None


def is_opaque(head: RequestHead) -> bool:
    """Return whether the type of a request's body is none of text."""
    return content_type_of(head.headers).kind in _OPAQUE


def read_body(head: RequestHead, body: bytes, limit: int, *, is_complete: bool, is_judged: bool) -> BodyText:
    """Return a body as text. Raises UnreadableBodyError if it `is_judged`, and can be text that cannot be read."""
    if not body:
        return BodyText("")
    content_type = content_type_of(head.headers)
    try:
        codings = encodings_of(head.headers)
        if codings:
            if not is_complete:
                raise UnreadableBodyError("it is compressed, and too large to be inspected")
            body = decode_whole(codings, body, limit)
        if is_judged and is_complete and is_multipart(head):
            text = BodyText(multipart_text(head, body))
        else:
            text = _read_plain(content_type, body, is_complete=is_complete, is_judged=is_judged)
        return replace(text, decoded=body) if codings else text
    except (CharsetError, CodedContentError, MultipartError, UnreadableBodyError) as error:
        if is_judged:
            raise UnreadableBodyError(str(error)) from None
        return BodyText(describe(head, content_type), BodyKind.UNREADABLE)


def _read_plain(content_type: ContentType, body: bytes, *, is_complete: bool, is_judged: bool) -> BodyText:
    kind = content_type.kind
    if kind in _OPAQUE:
        if not is_textual(body) or not is_judged:
            return BodyText(_brackets(len(body), content_type, is_complete=is_complete), BodyKind.UNREADABLE)
        if not is_complete:
            raise UnreadableBodyError(
                f"it looks like text, and is declared to be {content_type.name}; declare what it is"
            )
    codec = codec_of(content_type.charset, body[:4], is_json=kind in (BodyKind.JSON, BodyKind.JSON_LINES))
    if codec:
        body = Transcoder(codec).feed(body, final=is_complete)
    if is_judged and "xml" in content_type.type and declares_entities(body):
        raise UnreadableBodyError("it declares entities, by which text can be written that no rule finds")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        text = body.decode("utf-8", "replace") if not is_complete else body.decode("latin-1")
    return BodyText(text, kind, has_more=not is_complete)


def describe(head: RequestHead, content_type: ContentType) -> str:
    size = f"{head.length} bytes" if head.length is not None else "a body"
    return f"[{size} of {content_type.name}]"


def _brackets(size: int, content_type: ContentType, *, is_complete: bool) -> str:
    return f"[{'' if is_complete else 'more than '}{size} bytes of {content_type.name}]"


def request_text(head: RequestHead, body: BodyText) -> str:
    """Return the whole request as text."""
    lines = [f"{head.method} {redact_url(head.target)}", *header_lines(head.headers)]
    if not body.text:
        return "\n".join(lines)
    text = redact_body(body)
    if body.has_more:
        text += "\n[the body continues]"
    return "\n".join([*lines, "", text])


def header_lines(headers: Headers) -> list[str]:
    """Return the lines of a head, as they are recorded."""
    lines: list[str] = []
    for name, value in redact_request_headers(headers):
        title = _titles.get(name) or _title(name)
        lines.append(title + value.decode("latin-1"))
    return lines


_ESCAPE_SIGN: Final = re.compile(r"[%+&\\<;]")  # without one of them nothing is encoded

_titles: Final[dict[bytes, str]] = {}  # beginnings of lines
_MAX_TITLES: Final = 1024
_MAX_NAME: Final = 64  # bytes


def _title(name: bytes) -> str:
    title = f"{name.decode('latin-1').title()}: "
    if len(_titles) < _MAX_TITLES and len(name) <= _MAX_NAME:
        _titles[name] = title
    return title


def redact_body(body: BodyText) -> str:
    if body.kind is BodyKind.FORM:
        return _FORM_SECRET.sub(rf"\1{_TEXT}", body.text)
    text = _JSON_SECRET.sub(rf"\1{_TEXT}\2", body.text)
    return _PART_SECRET.sub(rf"\1{_TEXT}", text) if "form-data" in text else text


def decoded_texts(head: RequestHead, body: BodyText) -> tuple[bytes | None, ...]:
    """Return what differs from the text when it is decoded: the target, and the body."""
    texts: list[bytes | None] = []
    if _ESCAPE_SIGN.search(head.target):
        target = redact_url(head.target)
        texts += _readings(target, unquote_plus(target, errors="replace"))
    if not body.text:
        return tuple(texts)
    text = redact_body(body)
    if body.kind is BodyKind.FORM:
        texts += _readings(text, unquote_plus(text, errors="replace"))
    elif _JSON_ESCAPE.search(text) and body.kind in (BodyKind.JSON, BodyKind.JSON_LINES, BodyKind.TEXT):
        texts += _readings(text, _unescape(text))
    else:
        texts += _readings(text, text)
    return tuple(texts)


def _readings(text: str, decoded: str) -> list[bytes]:
    """Return a decoded text, and what is left of it without any escapes, as far as they differ from `text`."""
    once = decoded.encode("utf-8", "replace")
    readings = [] if decoded == text else [once]
    further = decode_escapes(once)
    return readings if further == once else [*readings, further]


_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def _unescape(text: str) -> str:
    return _STRING.sub(_unescape_string, text)


def _unescape_string(match: re.Match[str]) -> str:
    try:
        return f'"{json.loads(match.group(0), strict=False)}"'
    except ValueError:
        return match.group(0)
