"""Middleware around every request: an id, security headers, limits, a log line, and an answer in any case."""

from __future__ import annotations

import json
import logging
import time
from urllib.parse import unquote
from uuid import uuid4

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from postern.api import request_traces

log = logging.getLogger("postern.api")

MAX_BODY = 4 * 1024 * 1024  # bytes
_SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"strict-transport-security", b"max-age=31536000"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)


class BodyTooLarge(Exception):
    """Raised while the body is received, and answered here."""


class Envelope:
    """The outermost middleware. There are no CORS headers: the web app is served from the same address."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._serve_socket(scope, receive, send)
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send)
        try:
            problem = _unreadable(scope)
            if problem is not None:
                await exchange.answer(400, problem, close=True)
            elif exchange.announced > MAX_BODY:
                raise BodyTooLarge
            else:
                await self._app(scope, exchange.receive, exchange.send)
        except BodyTooLarge:
            await exchange.answer(413, f"the body is larger than the maximum of {MAX_BODY} bytes")
        except ClientDisconnect:
            log.info("the client of request %s disconnected before its end", exchange.id)
        except Exception:
            log.exception("request %s failed", exchange.id)
            if exchange.has_begun:
                raise  # the server then closes the connection: a client must not wait for the rest of the answer
            await exchange.answer(
                500, f"internal error; ask an administrator to look for {exchange.id} in the gateway's log"
            )
        finally:
            exchange.count()
            exchange.trace()
            exchange.log()

    async def _serve_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a WebSocket; at other addresses than those of WebSockets the handshake is denied with 403."""
        state = scope.setdefault("state", {})
        state["request_id"] = uuid4().hex
        started = time.perf_counter()
        try:
            if _unreadable(scope) is None:
                await self._app(scope, receive, send)
            else:
                await send({"type": "websocket.close"})
        except ClientDisconnect:
            pass
        finally:
            principal = state.get("principal")
            log.info(
                "WEBSOCKET %s %s %.1fs user=%s request=%s",
                scope["path"].encode("unicode_escape").decode(),
                state.get("close_code", "-"),
                time.perf_counter() - started,
                principal.email if principal else "-",
                state["request_id"],
            )


class _Exchange:
    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.id = uuid4().hex
        self._scope = scope
        self._receive = receive
        self._send = send
        self._started = time.perf_counter()
        self._received = 0
        self._too_large = False
        self._status: int | None = None
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        self.announced = int(length) if length.isdigit() else 0
        scope.setdefault("state", {})["request_id"] = self.id
        request_traces.record_arrival(scope)

    @property
    def has_begun(self) -> bool:
        """Return whether the answer has begun: its head has been sent."""
        return self._status is not None

    async def receive(self) -> Message:
        message = await self._receive()
        self._received += len(message.get("body", b""))
        if self._received > MAX_BODY:
            self._too_large = True
            raise BodyTooLarge
        return message

    async def send(self, message: Message) -> None:
        if self._too_large:
            raise BodyTooLarge  # the framework took the first one for an unreadable body
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = list(message.get("headers", []))
            # Pages have policies of their own, and their files may be cached; of two policies, each forbids what it
            # forbids alone.
            names = {name.lower() for name, _ in headers}
            added = [header for header in _SECURITY_HEADERS if header[0] not in names]
            message = {**message, "headers": [*headers, *added, (b"x-request-id", self.id.encode())]}
        await self._send(message)

    async def answer(self, status: int, message: str, *, close: bool = False) -> None:
        if self._status is not None:
            return  # the answer has begun: the server closes the connection, which is the only way to report it
        self._too_large = False
        body = json.dumps({"message": message}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if close:
            headers.append((b"connection", b"close"))
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    def count(self) -> None:
        """Count by the route's template, never by the path, so that strange paths create no series."""
        meters = getattr(self._scope["app"].state, "meters", None)
        if meters is None:
            return
        method = request_traces.method_of(self._scope)
        meters.count("postern_api_requests", method, request_traces.route_of(self._scope), str(self._status or "none"))
        meters.observe("postern_api_request_seconds", time.perf_counter() - self._started, method)

    def trace(self) -> None:
        request_traces.end_trace(self._scope, self._status)

    def log(self) -> None:
        """Log the path without its query, which can contain search terms."""
        principal = self._scope["state"].get("principal")
        log.info(
            "%s %s %s %.1fms user=%s request=%s",
            self._scope["method"],
            self._scope["path"].encode("unicode_escape").decode(),
            self._status,
            (time.perf_counter() - self._started) * 1000,
            principal.email if principal else "-",
            self.id,
        )


def _unreadable(scope: Scope) -> str | None:
    """Return what is wrong with the request's head, or None. Two lengths allow requests to be smuggled past proxies
    (RFC 9112 section 6.1). NUL cannot be stored or searched anywhere, and no legitimate request contains it."""
    query = scope.get("query_string", b"").decode("latin-1")
    headers = {name for name, _ in scope["headers"]}
    if b"content-length" in headers and b"transfer-encoding" in headers:
        return "the request has both Content-Length and Transfer-Encoding; send only one"
    if "\0" in scope["path"] or "\0" in unquote(query, errors="replace"):
        return "path or query: contains a NUL character"
    return None
