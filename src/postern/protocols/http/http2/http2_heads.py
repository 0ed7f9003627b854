"""Heads of HTTP/2: pseudo-header fields and fields as our heads, and back. h2's own checks are off: these are stricter,
and reset a stream where h2 would end the connection.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from hpack.struct import HeaderTuple, NeverIndexedHeaderTuple

from postern.protocols.http.http_heads import (
    HOP_BY_HOP,
    SECRET_REQUEST_HEADERS,
    SECRET_RESPONSE_HEADERS,
    Headers,
    RequestHead,
    ResponseHead,
)
from postern.protocols.http.http_syntax import (
    AUTHORITY,
    FORBIDDEN_TRAILERS,
    METHOD,
    VALUE_BYTES,
    HttpSyntaxError,
    allowed_trailers,
    check_authority,
    check_method,
    check_target,
    is_target,
)

# In HTTP/2 they make a message malformed. `te` is allowed with the value `trailers`.
_CONNECTION_FIELDS: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
)
_CONTROL: Final = HOP_BY_HOP | {b"content-length", b"host", b"expect"}
_UNIQUE: Final = frozenset({b"content-length", b"host", b"expect"})
_NAME: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")  # a token without capitals
_LENGTH: Final = re.compile(rb"[0-9]{1,18}")
_STATUS: Final = re.compile(rb"[1-9][0-9][0-9]")
_REQUEST_FIELDS: Final = frozenset({b":method", b":scheme", b":authority", b":path"})
_RESPONSE_FIELDS: Final = frozenset({b":status"})
_METHODS_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_SECRETS: Final = SECRET_REQUEST_HEADERS | SECRET_RESPONSE_HEADERS

Pair = tuple[bytes, bytes]


class MalformedHttp2(HttpSyntaxError):
    """A message that is malformed (RFC 9113, 8.1.1): its stream is reset, and it is not answered."""

    def __init__(self, message: str) -> None:
        super().__init__(400, message)


class _Fields:
    """A head's fields, separated into pseudo-header fields, fields that the codec reads, and headers."""

    def __init__(self, pairs: Iterable[Pair], pseudo_names: frozenset[bytes], max_fields: int) -> None:
        self.pseudo: dict[bytes, bytes] = {}
        self.control: dict[bytes, bytes] = {}
        headers: list[Pair] = []
        cookies: list[bytes] = []
        count = 0
        for name, value in pairs:
            count += 1
            if value.translate(None, VALUE_BYTES):
                raise MalformedHttp2("a header field contains a control character")
            if name[:1] == b":":
                if headers or cookies or self.control:
                    raise MalformedHttp2("a pseudo-header field after other fields")
                if name not in pseudo_names or name in self.pseudo:
                    raise MalformedHttp2("a pseudo-header field that is repeated or not allowed here")
                self.pseudo[name] = value
                continue
            _check_field(name, value)
            if name in _CONTROL:
                self._add(name, value)
            elif name == b"cookie":
                cookies.append(value)
            else:
                headers.append((name, value))
        if cookies:  # clients split them to compress them better
            headers.append((b"cookie", b"; ".join(cookies)))
        self.is_too_long = count > max_fields
        self.headers: Headers = tuple(headers)

    def _add(self, name: bytes, value: bytes) -> None:
        if name in _UNIQUE and name in self.control:
            raise MalformedHttp2(f"the field {name.decode()} is repeated")
        self.control[name] = value

    @property
    def content_length(self) -> int | None:
        value = self.control.get(b"content-length")
        if value is None:
            return None
        if _LENGTH.fullmatch(value) is None:
            raise MalformedHttp2("the content-length is not a number of up to 18 digits")
        return int(value)


def _check_field(name: bytes, value: bytes) -> None:
    if _NAME.fullmatch(name) is None:
        raise MalformedHttp2("a header field has an invalid name, or one with capitals")
    if name in _CONNECTION_FIELDS or (name == b"te" and value.lower() != b"trailers"):
        raise MalformedHttp2("a header field that belongs to connections of HTTP/1.1")
    if value != value.strip(b" \t"):
        raise MalformedHttp2("a header field's value begins or ends with a space")


def read_request_head(pairs: Sequence[Pair], *, has_ended: bool, max_fields: int) -> tuple[RequestHead, bool]:
    """Return a request's head, and whether it expects 100. Raises MalformedHttp2, or HttpSyntaxError with the status to
    answer."""
    fields = _Fields(pairs, _REQUEST_FIELDS, max_fields)
    length = fields.content_length
    if has_ended and length:
        raise MalformedHttp2("the request has a content-length, but no body")
    method = fields.pseudo.get(b":method", b"").decode("latin-1")
    if not method:
        raise MalformedHttp2("the request has no method")
    check_method(method)
    target = _target(method, fields)
    if fields.is_too_long:
        raise HttpSyntaxError(431, f"the head has more than {max_fields} header fields")
    if method == "HEAD" and not has_ended:
        raise HttpSyntaxError(400, "a HEAD request has a body")
    expectation = fields.control.get(b"expect", b"").lower()
    if expectation not in (b"", b"100-continue"):
        raise HttpSyntaxError(417, "the request expects something else than 100-continue")
    head = RequestHead(method, target, _authority(fields), fields.headers, 0 if has_ended else length)
    return head, bool(expectation) and not has_ended


def _target(method: str, fields: _Fields) -> str:
    if fields.pseudo.get(b":scheme", b"").lower() not in (b"http", b"https"):
        raise MalformedHttp2("the request's scheme is neither http nor https")
    target = fields.pseudo.get(b":path", b"").decode("latin-1")
    if not target:
        raise MalformedHttp2("the request has no path")
    return check_target(method, target)


def _authority(fields: _Fields) -> str:
    authority, host = fields.pseudo.get(b":authority"), fields.control.get(b"host")
    first = host if authority is None else authority
    if first is None:
        raise HttpSyntaxError(400, "the request has no authority")
    name = check_authority(first.decode("latin-1"))
    if host is not None and check_authority(host.decode("latin-1")) != name:
        raise HttpSyntaxError(400, "the request's authority and its host field name different hosts")
    return name


def read_status(pairs: Sequence[Pair]) -> int:
    """Return the status of a response. Raises MalformedHttp2."""
    value = next((value for name, value in pairs if name == b":status"), b"")
    if _STATUS.fullmatch(value) is None or value == b"101":
        raise MalformedHttp2("the response has no valid status")
    return int(value)


def read_response_head(pairs: Sequence[Pair], method: str, *, has_ended: bool, max_fields: int) -> ResponseHead:
    """Return a response's head. Raises MalformedHttp2."""
    fields = _Fields(pairs, _RESPONSE_FIELDS, max_fields)
    status, length = read_status(pairs), fields.content_length
    if fields.is_too_long:
        raise MalformedHttp2(f"the head has more than {max_fields} header fields")
    if method == "HEAD" or status in (204, 304):
        return ResponseHead(status, fields.headers, None if status == 204 else length, False)
    if has_ended and length:
        raise MalformedHttp2("the response has a content-length, but no body")
    return ResponseHead(status, fields.headers, 0 if has_ended else length)


def read_http2_trailers(pairs: Sequence[Pair], max_fields: int) -> Headers:
    """Return the trailers that may be forwarded. Raises MalformedHttp2."""
    fields = _Fields(pairs, frozenset(), max_fields)
    if fields.is_too_long:
        raise MalformedHttp2(f"more than {max_fields} trailers")
    return allowed_trailers(fields.headers)


def request_pairs(head: RequestHead, scheme: str) -> list[HeaderTuple]:
    """Return the fields of a request to send. Raises ValueError."""
    if head.upgrade:
        raise ValueError("HTTP/2 cannot change to another protocol")
    if METHOD.fullmatch(head.method) is None or not is_target(head.target):
        raise ValueError("the method or the target is not valid")
    if AUTHORITY.fullmatch(head.authority) is None:
        raise ValueError("the authority is not a host with an optional port")
    pairs = [
        HeaderTuple(b":method", head.method.encode("ascii")),
        HeaderTuple(b":scheme", scheme.encode("ascii")),
        HeaderTuple(b":authority", head.authority.encode("ascii")),
        HeaderTuple(b":path", head.target.encode("ascii")),
    ]
    _add_pairs(pairs, head.headers)
    if head.length or (head.length == 0 and head.method in _METHODS_WITH_BODY):
        pairs.append(HeaderTuple(b"content-length", b"%d" % head.length))
    pairs.append(HeaderTuple(b"te", b"trailers"))  # they are forwarded; servers of gRPC ask for it
    return pairs


def response_pairs(head: ResponseHead) -> list[HeaderTuple]:
    """Return the fields of a final response to send. Raises ValueError."""
    if not 200 <= head.status <= 999:
        raise ValueError(f"the status {head.status} is not one of a final response")
    pairs = [HeaderTuple(b":status", b"%d" % head.status)]
    _add_pairs(pairs, head.headers)
    if head.length is not None and head.status != 204:
        pairs.append(HeaderTuple(b"content-length", b"%d" % head.length))
    return pairs


def trailer_pairs(trailers: Headers) -> list[HeaderTuple]:
    """Return trailers to send. Raises ValueError."""
    if any(name in FORBIDDEN_TRAILERS for name, _ in trailers):
        raise ValueError("a trailer is not allowed")
    pairs: list[HeaderTuple] = []
    _add_pairs(pairs, trailers)
    return pairs


def _add_pairs(pairs: list[HeaderTuple], headers: Headers) -> None:
    for name, value in headers:
        if _NAME.fullmatch(name) is None or name in _CONTROL:
            raise ValueError("a header field has an invalid name, or one that only the codec writes")
        if value.translate(None, VALUE_BYTES):
            raise ValueError("a header field contains a control character")
        pairs.append((NeverIndexedHeaderTuple if name in _SECRETS else HeaderTuple)(name, value.strip(b" \t")))
