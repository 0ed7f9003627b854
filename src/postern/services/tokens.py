"""Access tokens of local login: JWTs signed with Ed25519 by a key pair that is made once and kept in the store.

Claims: `iss`, `aud`, `sub` (the user's id), `iat`, `exp`, `gen` (the user's token generation: a
changed password raises it, and ends all tokens issued before).
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey

from postern.domain.secret import Secret
from postern.errors import Unauthenticated
from postern.store.ports import Clock, KeyStore

LIFETIME = timedelta(hours=12)
ISSUER = "postern"
AUDIENCE = "postern-api"
_ALGORITHM = "Ed25519"  # EdDSA by its fully specified name, RFC 9864
_PURPOSE = "access-tokens"


@dataclass(frozen=True, slots=True)
class Claims:
    user_id: UUID
    generation: int


class Tokens:
    def __init__(self, store: KeyStore, now: Clock) -> None:
        self._store = store
        self._now = now
        self._key: OKPKey | None = None
        self._loading = asyncio.Lock()

    async def issue(self, user_id: UUID, generation: int) -> Secret:
        """A token for that user, good for 12 hours."""
        key = await self._signing_key()
        issued_at = int(self._now().timestamp())
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": str(user_id),
            "iat": issued_at,
            "exp": issued_at + int(LIFETIME.total_seconds()),
            "gen": generation,
        }
        return Secret(jwt.encode({"alg": _ALGORITHM, "kid": key.kid}, claims, key, algorithms=[_ALGORITHM]))

    async def verify(self, token: Secret) -> Claims:
        """Raises Unauthenticated for anything that is not a live token of ours."""
        key = await self._signing_key()
        registry = jwt.JWTClaimsRegistry(
            now=int(self._now().timestamp()),
            iss={"essential": True, "value": ISSUER},
            aud={"essential": True, "value": AUDIENCE},
            sub={"essential": True},
            iat={"essential": True},
            exp={"essential": True},
            gen={"essential": True},
        )
        try:
            claims = jwt.decode(token.reveal(), key, algorithms=[_ALGORITHM]).claims
            registry.validate(claims)
            return Claims(UUID(claims["sub"]), int(claims["gen"]))
        except (JoseError, ValueError, TypeError, AttributeError):
            raise Unauthenticated("the access token is not valid or has expired; log in again") from None

    async def _signing_key(self) -> OKPKey:
        async with self._loading:
            if self._key is None:
                key_id, private = await self._store.signing_key(_PURPOSE, _make_key, self._now())
                self._key = OKPKey.import_key(json.loads(private) | {"kid": str(key_id)})
            return self._key


def _make_key() -> bytes:
    return json.dumps(OKPKey.generate_key("Ed25519").as_dict(private=True)).encode()
