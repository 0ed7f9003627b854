"""Verification of requests that clients have signed, at the gateway.

The texts of errors are AWS's own: SDKs and people know them. Some SDKs correct their clock by them.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from hashlib import sha256
from typing import Final

from postern.domain.secret import Secret
from postern.errors import Denied
from postern.protocols.aws.sigv4 import (
    ALGORITHM,
    TERMINATOR,
    TIME_FORMAT,
    SigningKeys,
    SigningScope,
    canonical_request,
    signature_of,
    values_in_request,
)
from postern.protocols.http.http_heads import RequestHead, values_of

MAX_SKEW: Final = timedelta(minutes=15)
_MAX_AUTHORIZATION: Final = 4096  # bytes
_PARAMETERS: Final = ("Credential", "SignedHeaders", "Signature")
_SIGNATURE: Final = re.compile(r"[0-9a-f]{64}")
_DIGEST: Final = re.compile(rb"[0-9a-f]{64}")
_DATE: Final = re.compile(r"\d{8}")
_PRESIGNED: Final = re.compile(r"(?:^|&)X-Amz-(?:Signature|Credential|Algorithm|Security-Token)=", re.IGNORECASE)

MISMATCH: Final = (
    "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key "
    "and signing method. Consult the service documentation for details."
)
NOT_RECOGNIZED: Final = "The security token included in the request is invalid."


class SignatureRefused(Denied):
    """A request is not authenticated. `code` is AWS's name of the error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class RequestSignature:
    """What a request says of its signature."""

    access_key: str
    token: Secret
    scope: SigningScope
    signed_headers: tuple[bytes, ...]
    signature: str
    timestamp: str


def read_signature(head: RequestHead) -> RequestSignature:
    """Parse the signature of a request. Raises SignatureRefused."""
    if _PRESIGNED.search(head.query):
        raise _incomplete("Presigned requests are not accepted. Sign requests with the header 'Authorization'.")
    given = values_of(head.headers, b"authorization")
    if not given:
        raise SignatureRefused("MissingAuthenticationTokenException", "Request is missing Authentication Token")
    if len(given) > 1 or len(given[0]) > _MAX_AUTHORIZATION:
        raise _incomplete("The request must have one 'Authorization' header of at most 4096 bytes.")
    algorithm, _, rest = given[0].decode("latin-1").strip().partition(" ")
    if algorithm != ALGORITHM:
        raise _incomplete(f"Unsupported AWS 'algorithm'; only {ALGORITHM} is accepted.")
    parameters = _parameters(rest)
    access_key, scope = _credential(parameters["Credential"])
    if _SIGNATURE.fullmatch(parameters["Signature"]) is None:
        raise SignatureRefused("InvalidSignatureException", MISMATCH)
    names = tuple(name.encode("latin-1") for name in parameters["SignedHeaders"].split(";"))
    if list(names) != sorted(set(names)):
        raise _incomplete("'SignedHeaders' must be in alphabetical order, without repetitions.")
    tokens = values_of(head.headers, b"x-amz-security-token")
    if len(tokens) > 1:
        raise _incomplete("The request has more than one 'X-Amz-Security-Token' header.")
    token = Secret(tokens[0].decode("latin-1") if tokens else "")
    return RequestSignature(access_key, token, scope, names, parameters["Signature"], _timestamp(head))


class SignatureVerifier:
    """Verifies signatures for the named services of AWS. `regions` limits the regions; empty: any, because clients
    choose theirs, and the agent signs for the target's anyway."""

    def __init__(self, services: Collection[str], regions: Collection[str] = ()) -> None:
        self._services = frozenset(services)
        self._regions = frozenset(regions)
        self._keys = SigningKeys()

    def verify(
        self, head: RequestHead, signature: RequestSignature, digest: str, secret: Secret, now: datetime
    ) -> None:
        """Check the signature with the secret key. `digest` is SHA-256 of the body, in hexadecimal digits. Raises
        SignatureRefused."""
        self._check_scope(signature)
        _check_time(signature.timestamp, now)
        _check_headers(head, signature.signed_headers)
        _check_digest(head, digest)
        canonical = canonical_request(head, signature.signed_headers, digest)
        key = self._keys.of(secret, signature.scope)
        expected = signature_of(key, canonical, signature.timestamp, signature.scope)
        if not hmac.compare_digest(expected, signature.signature):
            raise SignatureRefused("InvalidSignatureException", MISMATCH)

    def _check_scope(self, signature: RequestSignature) -> None:
        scope = signature.scope
        if scope.service not in self._services:
            names = " or ".join(f"'{name}'" for name in sorted(self._services))
            raise _invalid(f"Credential should be scoped to correct service: {names}. ")
        if self._regions and scope.region not in self._regions:
            raise _invalid(f"Credential should be scoped to a valid region, not '{scope.region}'. ")
        if scope.date != signature.timestamp[:8]:
            raise _invalid(
                f"Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: "
                f"'{scope.date}' != '{signature.timestamp[:8]}', from '{signature.timestamp}'."
            )


def digest_of(body: bytes) -> str:
    return sha256(body).hexdigest()


def _parameters(text: str) -> dict[str, str]:
    parameters: dict[str, str] = {}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        if name in parameters:
            raise _incomplete(f"Authorization header has '{name}' more than once.")
        parameters[name] = value
    missing = [name for name in _PARAMETERS if not parameters.get(name)]
    if missing:
        raise _incomplete(" ".join(f"Authorization header requires '{name}' parameter." for name in missing))
    return parameters


def _credential(text: str) -> tuple[str, SigningScope]:
    parts = text.rsplit("/", 4)
    if len(parts) != 5 or not all(parts) or parts[4] != TERMINATOR or _DATE.fullmatch(parts[1]) is None:
        raise _incomplete(
            "Credential must have at least 5 slash-delimited elements, "
            "e.g. keyid/date/region/service/term, and end with 'aws4_request'."
        )
    return parts[0], SigningScope(parts[1], parts[2], parts[3])


def _timestamp(head: RequestHead) -> str:
    """Return the time of the request as it is signed: that of `X-Amz-Date`, else that of `Date`."""
    amz = values_of(head.headers, b"x-amz-date")
    if len(amz) == 1:
        return amz[0].decode("latin-1").strip()
    dates = values_of(head.headers, b"date")
    if amz or len(dates) != 1:
        raise _incomplete("Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header.")
    text = dates[0].decode("latin-1").strip()
    try:
        return parsedate_to_datetime(text).astimezone(UTC).strftime(TIME_FORMAT)
    except (ValueError, OverflowError):
        return text


def _check_time(timestamp: str, now: datetime) -> None:
    try:
        moment = datetime.strptime(timestamp, TIME_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        raise _incomplete(
            "Date must be in ISO-8601 'basic format'. See http://en.wikipedia.org/wiki/ISO_8601"
        ) from None
    current = now.astimezone(UTC)
    earliest, latest = current - MAX_SKEW, current + MAX_SKEW
    if moment < earliest.replace(microsecond=0):
        raise _invalid(
            f"Signature expired: {timestamp} is now earlier than {earliest.strftime(TIME_FORMAT)} "
            f"({current.strftime(TIME_FORMAT)} - 15 min.)"
        )
    if moment > latest:
        raise _invalid(
            f"Signature not yet current: {timestamp} is still later than {latest.strftime(TIME_FORMAT)} "
            f"({current.strftime(TIME_FORMAT)} + 15 min.)"
        )


def _check_headers(head: RequestHead, signed: tuple[bytes, ...]) -> None:
    """Check that everything is signed that decides what the request does and when."""
    time = b"x-amz-date" if values_of(head.headers, b"x-amz-date") else b"date"
    required = {b"host", time, *(name for name, _ in head.headers if name.startswith(b"x-amz-"))}
    missing = sorted(required.difference(signed))
    if missing:
        raise _invalid(
            "There were headers present in the request which were not signed: "
            + ", ".join(name.decode("latin-1") for name in missing)
        )
    absent = [name.decode("latin-1") for name in signed if not values_in_request(head, name)]
    if absent:
        raise _invalid(f"'SignedHeaders' names headers that the request does not have: {', '.join(absent)}")


def _check_digest(head: RequestHead, digest: str) -> None:
    """Check the digest that the client names. What it signed instead of its body, such as UNSIGNED-PAYLOAD, is
    refused."""
    for value in values_of(head.headers, b"x-amz-content-sha256"):
        if _DIGEST.fullmatch(value.strip()) is None:
            name = value.decode("latin-1")[:64]
            raise _invalid(f"The body of the request must be signed; x-amz-content-sha256 '{name}' is not accepted.")
        if not hmac.compare_digest(value.strip().decode(), digest):
            raise _invalid("The provided 'x-amz-content-sha256' header does not match what was computed.")


def _incomplete(message: str) -> SignatureRefused:
    return SignatureRefused("IncompleteSignatureException", message)


def _invalid(message: str) -> SignatureRefused:
    return SignatureRefused("InvalidSignatureException", message)
