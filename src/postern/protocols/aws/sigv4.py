"""Signature Version 4 of AWS: what is signed, and with which key. Both ends use it: verifying is signing again.

    canonical request   method, path, query, signed headers, SHA-256 of the body
    string to sign      algorithm, time, scope, SHA-256 of the canonical request
    signing key         HMACs of date, region, service and `aws4_request`, in turn, starting with the secret
    signature           HMAC of the string to sign with the signing key, in hexadecimal digits

Source: "Create a signed AWS API request", AWS General Reference. All services but S3 encode the path twice.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final
from urllib.parse import quote

from postern.domain.secret import NO_SECRET, Secret
from postern.errors import Unavailable
from postern.protocols.http.http_heads import Headers, RequestHead, values_of, without

ALGORITHM: Final = "AWS4-HMAC-SHA256"
TERMINATOR: Final = "aws4_request"
TIME_FORMAT: Final = "%Y%m%dT%H%M%SZ"
DIGEST_OF_NOTHING: Final = sha256(b"").hexdigest()

# What a signer adds. Those of a client are removed first.
SIGNATURE_HEADERS: Final = frozenset(
    {b"authorization", b"x-amz-date", b"x-amz-security-token", b"x-amz-content-sha256", b"date"}
)
_MAX_KEYS: Final = 64  # signing keys that are remembered: each is of one day


@dataclass(frozen=True, slots=True)
class SigningScope:
    """What a signature is valid for."""

    date: str  # 20260131
    region: str
    service: str

    @property
    def text(self) -> str:
        return f"{self.date}/{self.region}/{self.service}/{TERMINATOR}"


@dataclass(frozen=True, slots=True)
class AwsCredentials:
    """Credentials. `session_token` is empty for permanent ones."""

    access_key: str
    secret_key: Secret
    session_token: Secret = NO_SECRET


class SigningKeys:
    """Derives signing keys. One is valid for a day, so each is derived once."""

    def __init__(self) -> None:
        self._keys: dict[tuple[Secret, SigningScope], bytes] = {}

    def of(self, secret: Secret, scope: SigningScope) -> bytes:
        key = self._keys.get((secret, scope))
        if key is None:
            key = derive_key(secret, scope)
            while len(self._keys) >= _MAX_KEYS:
                del self._keys[next(iter(self._keys))]
            self._keys[secret, scope] = key
        return key


def derive_key(secret: Secret, scope: SigningScope) -> bytes:
    key = b"AWS4" + secret.reveal().encode()
    for part in (scope.date, scope.region, scope.service, TERMINATOR):
        key = _hmac(key, part)
    return key


def canonical_request(head: RequestHead, signed: Iterable[bytes], digest: str) -> bytes:
    """Return the canonical request. `signed` are the names of the signed headers, in order."""
    names = tuple(signed)
    lines = [b"%s:%s\n" % (name, _value_of(head, name)) for name in names]
    start = f"{head.method.upper()}\n{_canonical_path(head.path)}\n{_canonical_query(head.query)}\n"
    return b"".join([start.encode("latin-1"), *lines, b"\n", b";".join(names), b"\n", digest.encode()])


def signature_of(key: bytes, canonical: bytes, timestamp: str, scope: SigningScope) -> str:
    """Return the signature of a canonical request in hexadecimal digits."""
    return _hmac(key, f"{ALGORITHM}\n{timestamp}\n{scope.text}\n{sha256(canonical).hexdigest()}").hex()


def sign_request(
    head: RequestHead,
    credentials: AwsCredentials,
    *,
    region: str,
    service: str,
    now: datetime,
    keys: SigningKeys,
) -> RequestHead:
    """Return the head with a signature, which replaces one that it has.

    Only `host`, `content-type` and `x-amz-…` are signed: whatever is added on the way later changes none of them.
    Raises Unavailable if the digest of a body is missing.
    """
    digest = head.digest or (DIGEST_OF_NOTHING if head.length == 0 else "")
    if not digest:
        raise Unavailable("the request cannot be signed for AWS: the gateway sent no digest of its body")
    timestamp = now.astimezone(UTC).strftime(TIME_FORMAT)
    scope = SigningScope(timestamp[:8], region, service)
    headers: Headers = (*without(head.headers, SIGNATURE_HEADERS), (b"x-amz-date", timestamp.encode()))
    if credentials.session_token:
        headers = (*headers, (b"x-amz-security-token", credentials.session_token.reveal().encode()))
    head = head.with_headers(headers)
    names = sorted({b"host", *(name for name, _ in headers if name == b"content-type" or name.startswith(b"x-amz-"))})
    canonical = canonical_request(head, names, digest)
    signature = signature_of(keys.of(credentials.secret_key, scope), canonical, timestamp, scope)
    parameters = (
        f"Credential={credentials.access_key}/{scope.text}",
        f"SignedHeaders={b';'.join(names).decode()}",
        f"Signature={signature}",
    )
    value = f"{ALGORITHM} {', '.join(parameters)}"
    return head.with_headers((*headers, (b"authorization", value.encode())))


def values_in_request(head: RequestHead, name: bytes) -> list[bytes]:
    """Return the values of a header of the request, also of those that a head has in fields of its own."""
    if name == b"host":
        return [head.authority.encode("latin-1")]
    if name == b"content-length":
        return [] if head.length is None else [str(head.length).encode()]
    return values_of(head.headers, name)


def _value_of(head: RequestHead, name: bytes) -> bytes:
    return b",".join([b" ".join(value.split()) for value in values_in_request(head, name)])


def _canonical_path(path: str) -> str:
    """Return the path without dot segments and repeated slashes, encoded once more."""
    kept: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment and segment != ".":
            kept.append(segment)
    start = "/" if path.startswith("/") else ""
    end = "/" if kept and path.endswith("/") else ""
    return quote(start + "/".join(kept) + end or "/", safe="/~")


def _canonical_query(query: str) -> str:
    """Return the query with its parameters in order. They are signed as they are encoded in the request."""
    if not query:
        return ""
    pairs = [parameter.partition("=")[::2] for parameter in query.split("&")]
    return "&".join([f"{name}={value}" for name, value in sorted(pairs)])


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
