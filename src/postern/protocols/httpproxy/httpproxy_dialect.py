"""HTTP applications: requests as text, responses by the type of their content.

Where rules inspect answers, requests are changed so that the answers can be read: no compression, no ranges, no
revalidation of copies that the client has, no extensions of WebSocket, and no binary form of a protocol that has a text
form, too.

A compressed request that rules judge is forwarded decoded: what was judged is what the application gets.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from postern.interception.events import Operation
from postern.interception.verdicts import Refuse
from postern.protocols.http.content.content_types import BodyKind, content_type_of
from postern.protocols.http.http_frames import TargetFailure
from postern.protocols.http.http_heads import Headers, RequestHead, ResponseHead, values_of, without
from postern.protocols.http.wire.http_dialect import (
    BodyNeed,
    HttpDialect,
    ReadRequest,
    ResponseBodyReader,
    UpgradedReader,
)
from postern.protocols.httpproxy.httpproxy_refusals import failure_response, refusal_response
from postern.protocols.httpproxy.multipart_bodies import is_multipart
from postern.protocols.httpproxy.multipart_responses import MultipartReader, is_readable_multipart
from postern.protocols.httpproxy.request_texts import (
    BodyText,
    UnreadableBodyError,
    decoded_texts,
    describe,
    is_opaque,
    read_body,
    request_text,
)
from postern.protocols.httpproxy.response_readers import BodyReader, EmptyReader, HeadReader
from postern.protocols.httpproxy.websocket_messages import WebsocketReader
from postern.protocols.wire_base import Wants

RECORDED_BODY: Final = 64 * 1024  # bytes of a request's body that are recorded if no rule judges it
OPAQUE_BODY: Final = 64 * 1024  # bytes that tell whether a body is text, though its type says otherwise

_INSPECTED: Final = frozenset({b"range", b"if-range", b"accept-encoding"})
# Conditions of a request that reads. An ETag can be a digest of the content, which an answer to a guess would confirm.
# Requests that write keep theirs: without them, they would overwrite what they must not.
_CONDITIONS: Final = frozenset({b"if-none-match", b"if-modified-since", b"if-match", b"if-unmodified-since"})
_READS: Final = frozenset({"GET", "HEAD"})
# Headers of a request that describe compressed bytes.
_OF_CODED_BYTES: Final = frozenset({b"content-encoding", b"content-md5", b"digest", b"content-digest", b"repr-digest"})
_DELTAS: Final = frozenset({b"a-im", b"want-digest", b"want-content-digest", b"want-repr-digest"})
_WEBSOCKET_PROTOCOL: Final = b"sec-websocket-protocol"
# Clients that are not given it use JSON, as older servers do.
_BINARY_FORMS: Final = frozenset({b"v1.kernel.websocket.jupyter.org"})
_PARTIAL: Final = 206


class HttpproxyDialect(HttpDialect):
    """The dialect of one link. `limit` is the maximum size of a body, and of a value, that is inspected."""

    def __init__(self, limit: int = 32 << 20) -> None:
        self._limit = limit
        self._wants = Wants()

    def body_need(self, head: RequestHead, wants: Wants) -> BodyNeed:
        self._wants = wants
        if head.upgrade or head.length == 0:
            return BodyNeed()
        if wants.operations and is_multipart(head):
            return BodyNeed(self._limit, must_fit=True)
        if is_opaque(head):
            # An opaque stream without a length can be one side of a conversation, such as of gRPC.
            return BodyNeed(OPAQUE_BODY if wants.operations and head.length is not None else 0)
        if wants.operations:
            return BodyNeed(self._limit, must_fit=True)
        return BodyNeed(RECORDED_BODY)

    def read_request(self, exchange: int, head: RequestHead, body: bytes, *, is_complete: bool) -> ReadRequest:
        is_judged = self._wants.operations
        forced: Refuse | None = None
        try:
            text = read_body(head, body, self._limit, is_complete=is_complete, is_judged=is_judged)
        except UnreadableBodyError as error:
            text = BodyText(describe(head, content_type_of(head.headers)), BodyKind.UNREADABLE)
            message = f"the request's body cannot be inspected: {error}"
            forced = Refuse("encoding", message, "Send it as text, without compression.")
        if not text.text and head.length != 0 and not is_complete:
            text = BodyText(describe(head, content_type_of(head.headers)), BodyKind.UNREADABLE)
        if forced is None:
            forced = self._find_unreadable_head(head)
        operation = Operation(exchange, request_text(head, text), values=decoded_texts(head, text))
        prepared = self._prepare(head)
        if is_judged and text.decoded is not None:
            # An application that ignores the coding would read other bytes than those that were judged.
            headers = without(prepared.headers, _OF_CODED_BYTES)
            prepared = replace(prepared, headers=headers, length=len(text.decoded))
        return ReadRequest(exchange, prepared, [operation], forced, body=text.decoded if is_judged else None)

    def _find_unreadable_head(self, head: RequestHead) -> Refuse | None:
        """Refuse a request that rules and the application could read differently, or whose rest cannot be read."""
        wants = self._wants
        if not (wants.operations or wants.output or wants.rows):
            return None
        if wants.operations and len(set(values_of(head.headers, b"content-type"))) > 1:
            return Refuse("request", "the request has several content types", "Send one Content-Type.")
        if head.upgrade and head.upgrade != "websocket":
            message = f"rules of this connection inspect content, and the protocol {head.upgrade!r} cannot be inspected"
            return Refuse("protocol", message, "Ask an administrator for a connection without such rules.")
        return None

    def _prepare(self, head: RequestHead) -> RequestHead:
        """Return the head to forward."""
        wants = self._wants
        headers = head.headers
        if wants.output or wants.rows:
            headers = without(headers, _INSPECTED | _DELTAS | (_CONDITIONS if head.method in _READS else frozenset()))
            headers = (*headers, (b"accept-encoding", b"identity"))
        if head.upgrade and (wants.output or wants.rows or wants.operations):
            headers = _without_binary_forms(without(headers, (b"sec-websocket-extensions",)))
        return head if headers is head.headers else head.with_headers(headers)

    def read_response(self, request: ReadRequest, response: ResponseHead, wants: Wants) -> ResponseBodyReader | None:
        if not (wants.output or wants.rows):
            return None
        if not response.has_body:
            return EmptyReader(request.exchange, response)
        if response.length == 0:
            return HeadReader(request.exchange, response)
        if response.status == _PARTIAL:
            raise ValueError("the application sent a part of the content (206), in which values cannot be found")
        reader = MultipartReader if is_readable_multipart(response) else BodyReader
        return reader(request.exchange, response, self._limit, columns=wants.headings)

    def read_upgraded(self, request: ReadRequest, response: ResponseHead, wants: Wants) -> UpgradedReader | None:
        if not (wants.output or wants.rows or wants.operations):
            return None
        return WebsocketReader(request.exchange, request.head, wants, self._limit)

    def refusal(self, request: ReadRequest, refusal: Refuse) -> tuple[ResponseHead, bytes]:
        return refusal_response(request.head, refusal)

    def failure(self, request: ReadRequest, failure: TargetFailure) -> tuple[ResponseHead, bytes]:
        return failure_response(request.head, failure)


def _without_binary_forms(headers: Headers) -> Headers:
    kept: list[tuple[bytes, bytes]] = []
    for name, value in headers:
        if name == _WEBSOCKET_PROTOCOL:
            offered = [protocol.strip() for protocol in value.split(b",")]
            value = b", ".join([each for each in offered if each and each.lower() not in _BINARY_FORMS])
            if not value:
                continue
        kept.append((name, value))
    return tuple(kept)
