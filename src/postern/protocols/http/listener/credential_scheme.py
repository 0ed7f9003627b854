"""How the clients of a protocol that HTTP carries prove themselves, and how it answers errors."""

from __future__ import annotations

from typing import Protocol

from postern.errors import PosternError
from postern.protocols.http.http_heads import RequestHead, ResponseHead
from postern.protocols.http.listener.http_credentials import (
    PresentedCredential,
    credential_of,
    login_digest,
    without_credential,
)


class CredentialScheme(Protocol):
    """The scheme. `max_body` is how many bytes of a request's body are read before it is accepted, None for none: with
    them, a longer body is refused."""

    @property
    def max_body(self) -> int | None: ...

    def read(self, head: RequestHead, *, tls: bool) -> PresentedCredential | None:
        """Return the credential of a request, or None. Raises PosternError for one that cannot be valid."""

    def login_digest(self, head: RequestHead) -> bytes:
        """Return a hash of what `read` reads; requests with the same one have the same credential. Nothing if each
        request has a credential of its own, such as a signature."""

    def accept(self, head: RequestHead, used: PresentedCredential | None, body: bytes) -> RequestHead:
        """Return the request to forward, without the credential, once its password was checked; `used` is None for a
        client of a local port, which needs no credential. Raises PosternError."""

    def patience_of(self, head: RequestHead) -> float | None:
        """Return how many seconds a client waits at least for a sign of life; None if it needs none, or cannot read it
        before a response."""

    def answer(self, head: RequestHead, error: PosternError) -> tuple[ResponseHead, bytes] | None:
        """Return the response to an error in the protocol's own form; None for the usual one."""


class HeaderCredentials:
    """Basic, Bearer, the own header, or the cookie: `http_credentials.py`."""

    max_body = None

    def read(self, head: RequestHead, *, tls: bool) -> PresentedCredential | None:
        return credential_of(head, tls=tls)

    def login_digest(self, head: RequestHead) -> bytes:
        return login_digest(head)

    def accept(self, head: RequestHead, used: PresentedCredential | None, body: bytes) -> RequestHead:
        return without_credential(head, used)

    def patience_of(self, head: RequestHead) -> float | None:
        return None

    def answer(self, head: RequestHead, error: PosternError) -> tuple[ResponseHead, bytes] | None:
        return None
