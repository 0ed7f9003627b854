"""Adds the target's credential to each request. AWS has a signer of its own; here are fixed headers."""

from __future__ import annotations

from typing import Protocol

from postern.agent.secrets import ResolvedSecrets
from postern.protocols.http.http_heads import Headers, RequestHead, plain_name
from postern.protocols.http.target.http_access import read_headers
from postern.relay.orders import Order


class RequestSigner(Protocol):
    def sign(self, head: RequestHead) -> RequestHead:
        """Return the request with the credential. It is called last: method, target, authority and other headers are
        final. Raises Unavailable without a valid credential."""


class HeaderSigner:
    """Adds fixed headers. The client's own of the same names are removed, and those that can be taken for them."""

    def __init__(self, headers: Headers) -> None:
        self._headers = headers
        self._names = frozenset(name for name, _ in headers)

    def sign(self, head: RequestHead) -> RequestHead:
        if not self._headers:
            return head
        theirs = tuple(pair for pair in head.headers if plain_name(pair[0]) not in self._names)
        return head.with_headers(theirs + self._headers)


def header_signer(order: Order, secrets: ResolvedSecrets) -> HeaderSigner:
    """Return the signer of a connection with HEADER_<NAME> secrets. Raises Unavailable."""
    return HeaderSigner(read_headers(order, secrets))
