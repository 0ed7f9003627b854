"""Tokens of an OpenID provider: their signature, issuer, audience and times."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Collection, Mapping
from typing import Any

from joserfc import jws, jwt
from joserfc.errors import JoseError

from postern.domain.secret import Secret
from postern.errors import Unauthenticated
from postern.integrations.identity.directory import Directory, PublicKey, keys_of
from postern.store.ports.common_ports import Clock

SKEW = 60  # seconds of tolerated clock difference
LONGEST = 64 * 1024  # characters of a token
ALGORITHMS = {  # all asymmetric: a secret that the client also has proves nothing; `none` even less
    **{
        f"{family}{bits}": kind
        for family, kind in (("RS", "RSA"), ("PS", "RSA"), ("ES", "EC"))
        for bits in (256, 384, 512)
    },
    "EdDSA": "OKP",
    "Ed25519": "OKP",
}


class TokenVerifier:
    def __init__(self, directory: Directory, now: Clock) -> None:
        self._directory = directory
        self._now = now

    async def verify(
        self,
        token: Secret,
        *,
        issuer: str,
        audience: str,
        algorithms: Collection[str] = ALGORITHMS,
        jwks: Mapping[str, Any] | None = None,
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Verify a token. Return its header and claims. `jwks`: the issuer's keys, which are not fetched then. Raises
        Unauthenticated, Unavailable."""
        text = token.reveal()
        if len(text) > LONGEST:
            raise Unauthenticated("the identity provider's token is too long")
        header = header_of(text)
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in algorithms or not isinstance(kid, str | None):
            raise Unauthenticated(
                "the identity provider's token has a signature algorithm or key ID that is not accepted"
            )
        published = await self._directory.keys(issuer, kid) if jwks is None else keys_of(jwks, kid)
        keys = [key for key in published if _fits(key, algorithm)]
        claims = next((verified for key in keys if (verified := _claims(text, key, algorithm)) is not None), None)
        if claims is None:
            raise Unauthenticated("the identity provider's token is not signed by any of the provider's keys")
        self._check(claims, issuer, audience)
        return header, claims

    def _check(self, claims: dict[str, Any], issuer: str, audience: str) -> None:
        registry = jwt.JWTClaimsRegistry(
            now=int(self._now().timestamp()),
            leeway=SKEW,
            iss={"essential": True, "value": issuer},
            aud={"essential": True, "value": audience},
            sub={"essential": True},
            iat={"essential": True},
            exp={"essential": True},
        )
        try:
            registry.validate(claims)
        except (JoseError, ValueError, TypeError, OverflowError) as error:
            claim = getattr(error, "claim", None) or getattr(error, "description", None) or str(error)
            raise Unauthenticated(f"the identity provider's token is not valid: {claim}") from None
        if not all(_is_time(claims[name]) for name in ("iat", "exp", "nbf") if name in claims):
            raise Unauthenticated("the identity provider's token is not valid: its times are not numbers")


def header_of(text: str) -> dict[str, Any]:
    """Return the header without verification. Raises Unauthenticated when it is not a signed token."""
    try:
        return dict(jws.extract_compact(text.encode()).headers())
    except (JoseError, ValueError, TypeError, AttributeError):
        raise Unauthenticated("the identity provider's token cannot be read") from None


def half_hash_matches(expected: object, value: str, algorithm: str) -> bool:
    """Check `at_hash`: the left half of the hash that belongs to the algorithm (OpenID Connect Core 3.1.3.6)."""
    digest = hashlib.new(
        "sha512" if algorithm in ("EdDSA", "Ed25519") else f"sha{algorithm[-3:]}", value.encode()
    ).digest()
    half = base64.urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=").decode()
    return isinstance(expected, str) and hmac.compare_digest(expected.encode(), half.encode())


def _is_time(value: object) -> bool:
    """Return True for seconds since 1970. Numbers of JSON can be larger than any time."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value < 10**11  # type: ignore[operator]


def _fits(key: PublicKey, algorithm: str) -> bool:
    return key.key_type == ALGORITHMS[algorithm] and key.get("alg") in (None, algorithm)


def _claims(text: str, key: PublicKey, algorithm: str) -> dict[str, Any] | None:
    try:
        return dict(jwt.decode(text, key, algorithms=[algorithm]).claims)
    except (JoseError, ValueError, TypeError, RecursionError):
        return None
