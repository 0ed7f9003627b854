"""Responses of the gateway itself, in the form that the client asks for."""

from __future__ import annotations

import json
from html import escape
from typing import Final
from urllib.parse import quote

from postern.interception.verdicts import Refuse
from postern.protocols.http.content.content_types import is_grpc
from postern.protocols.http.http_frames import TargetFailure
from postern.protocols.http.http_heads import Headers, RequestHead, ResponseHead, first_value

FORBIDDEN: Final = 403
# The statuses of refusals that the protocol itself makes, by their rules.
_STATUSES: Final = {"size": 413, "request": 400, "encoding": 415}
_FAILURES: Final = {"timeout": 504, **dict.fromkeys(("ended", "killed", "expired"), 503)}
_BAD_GATEWAY: Final = 502
_TITLES: Final = {
    400: "Bad request",
    403: "Blocked",
    413: "Request too large",
    415: "Unsupported content",
    502: "The application cannot be reached",
    503: "Session ended",
    504: "The application did not answer in time",
}
# Statuses of gRPC.
_PERMISSION_DENIED: Final = 7
_UNAVAILABLE: Final = 14
_DEADLINE: Final = 4

_POLICY: Final = b"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'self'"
_PAGE: Final = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:40rem;margin:15vh auto;padding:0 1rem;color:#222}}
small{{color:#666}}</style></head>
<body><h1>{title}</h1><p>{message}</p><p>{hint}</p><p><small>{rule}</small></p></body></html>
"""


def refusal_response(request: RequestHead, refusal: Refuse) -> tuple[ResponseHead, bytes]:
    """Return the response to a refused request."""
    status = _STATUSES.get(refusal.rule, FORBIDDEN)
    return gateway_response(request, status, refusal.message, refusal.hint, refusal.rule, _PERMISSION_DENIED)


def failure_response(request: RequestHead, failure: TargetFailure) -> tuple[ResponseHead, bytes]:
    """Return the response to a request that the target did not answer."""
    status = _FAILURES.get(failure.code, _BAD_GATEWAY)
    grpc_status = _DEADLINE if failure.code == "timeout" else _UNAVAILABLE
    return gateway_response(request, status, failure.message, "", "", grpc_status)


def gateway_response(
    request: RequestHead, status: int, message: str, hint: str, rule: str, grpc_status: int
) -> tuple[ResponseHead, bytes]:
    """Return a response of the gateway: a status of gRPC, JSON, a page or text."""
    if is_grpc(request.headers):
        text = f"{message}. {hint}" if hint else message
        headers: Headers = (
            (b"content-type", b"application/grpc"),
            (b"grpc-status", str(grpc_status).encode()),
            (b"grpc-message", quote(text[:1000], safe=" !\"#$&'()*+,-./:;<=>?@[]^_`{|}~").encode()),
        )
        return ResponseHead(200, headers, 0, has_body=False), b""
    kind, body = _body(request, status, message, hint, rule)
    headers = ((b"content-type", kind), (b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
    if kind.startswith(b"text/html"):
        headers = (*headers, (b"content-security-policy", _POLICY))
    has_body = request.method != "HEAD"
    return ResponseHead(status, headers, len(body), has_body), body if has_body else b""


def _body(request: RequestHead, status: int, message: str, hint: str, rule: str) -> tuple[bytes, bytes]:
    accepted = first_value(request.headers, b"accept").decode("latin-1").lower()
    sent = first_value(request.headers, b"content-type").decode("latin-1").lower()
    if "text/html" in accepted:
        page = _PAGE.format(
            title=_TITLES.get(status, "Blocked"),
            message=escape(message),
            hint=escape(hint),
            rule=escape(f"Rule: {rule}" if rule else "Postern"),
        )
        return b"text/html; charset=utf-8", page.encode("utf-8", "replace")
    if "json" in accepted or "json" in sent:
        content = {"message": message, "hint": hint, "rule": rule}
        return b"application/json", json.dumps({key: value for key, value in content.items() if value}).encode()
    text = "\n".join([part for part in (message, hint) if part])
    return b"text/plain; charset=utf-8", f"{text}\n".encode("utf-8", "replace")
