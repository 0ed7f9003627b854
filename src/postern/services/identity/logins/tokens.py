"""Access tokens: JWTs signed with Ed25519 (EdDSA, RFC 8037) by rotated key pairs in the store.

Claims: `iss`, `aud`, `sub` (the principal's id), `sid` (the login it belongs to), `iat`, `exp`. A token is worth
nothing without its login, which can be ended at once; the signature keeps strangers from causing queries.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from joserfc import jws, jwt
from joserfc.errors import ExpiredTokenError, JoseError
from joserfc.jwk import OKPKey

from postern.domain.secret import Secret
from postern.errors import Unauthenticated
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.identity_ports import SigningKey, SigningKeyStore

ISSUER = "postern"
AUDIENCE = "postern-api"
SETTING = "token-keys"  # how `settings.changed` names these keys
_ALGORITHM = "Ed25519"  # the fully specified name of EdDSA, RFC 9864
# A retired key verifies until the last token that it signed has expired.
RETIRED_KEYS_STAY = timedelta(days=1)
_MAX_REMEMBERED = 10_000


_INVALID = "the access token is not valid or has expired; log in again"


class ForeignToken(Unauthenticated):
    """The token names none of our keys."""


@dataclass(frozen=True, slots=True)
class Claims:
    principal_id: UUID
    login_id: UUID


@dataclass(frozen=True, slots=True)
class _Verified:
    claims: Claims
    expires_at: int  # seconds since 1970, as `exp` has it


class Tokens:
    """Signs and verifies tokens. Caches the keys; a token with an unknown key reloads them.

    Caches the claims of recently verified tokens by their SHA-256, until the keys change: parsing a token and checking
    its signature costs more than the rest of a request's admission. Whether the login is still valid is checked
    elsewhere, at every request.
    """

    def __init__(self, store: SigningKeyStore, signals: Signals, now: Clock) -> None:
        self._store = store
        self._signals = signals
        self._now = now
        self._keys: dict[str, OKPKey] = {}
        self._signing = ""
        self._generation = 0
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()
        self._looking = asyncio.Lock()
        self._looked_at: datetime | None = None
        signals.subscribe(Topic.SETTINGS_CHANGED, self._on_changed)
        signals.subscribe(Topic.RESUMED, lambda _: self._forget())

    async def issue(self, principal_id: UUID, login_id: UUID, expires_at: datetime) -> Secret:
        if not self._signing:
            await self._look()
        key = self._keys[self._signing]
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": str(principal_id),
            "sid": str(login_id),
            "iat": int(self._now().timestamp()),
            "exp": int(expires_at.timestamp()),
        }
        return Secret(jwt.encode({"alg": _ALGORITHM, "kid": key.kid}, claims, key, algorithms=[_ALGORITHM]))

    async def sign(self, audience: str, claims: Mapping[str, object], expires_at: datetime) -> Secret:
        """Return a token that is not an access token, for another audience. `issue` is separate so that no claim can
        turn one into the other."""
        if audience == AUDIENCE:
            raise ValueError("use `issue` for access tokens")
        if not self._signing:
            await self._look()
        key = self._keys[self._signing]
        whole = {**claims, "iss": ISSUER, "aud": audience, "exp": int(expires_at.timestamp())}
        return Secret(jwt.encode({"alg": _ALGORITHM, "kid": key.kid}, whole, key, algorithms=[_ALGORITHM]))

    async def verify_for(self, audience: str, token: Secret) -> Mapping[str, object]:
        """Return the claims of a token that `sign` created. Raises Unauthenticated, with its own message where it has
        only expired."""
        key = await self._key_of(token)
        if key is None:
            raise _not_good()
        registry = jwt.JWTClaimsRegistry(
            now=int(self._now().timestamp()),
            iss={"essential": True, "value": ISSUER},
            aud={"essential": True, "value": audience},
            exp={"essential": True},
        )
        try:
            claims: Mapping[str, object] = jwt.decode(token.reveal(), key, algorithms=[_ALGORITHM]).claims
            registry.validate(dict(claims))
        except ExpiredTokenError:
            raise Unauthenticated("this link has expired; create a new one") from None
        except (JoseError, ValueError, TypeError, AttributeError):
            raise _not_good() from None
        return claims

    async def verify(self, token: Secret) -> Claims:
        """Return the claims of a live access token of ours.

        Raises Unauthenticated for any other: ForeignToken where it names none of our keys, so that an identity provider
        may have issued it.
        """
        digest = _digest_of(token)
        verified = self._verified.get(digest)
        if verified is None:
            key = await self._key_of(token)
            if key is None:
                raise ForeignToken(_INVALID)
            verified = self._verified[digest] = self._verify_claims(token, key)
            if len(self._verified) > _MAX_REMEMBERED:
                self._verified.popitem(last=False)
        elif verified.expires_at <= int(self._now().timestamp()):
            raise _invalid()
        return verified.claims

    def _verify_claims(self, token: Secret, key: OKPKey) -> _Verified:
        """Verify the token. Raises Unauthenticated."""
        registry = jwt.JWTClaimsRegistry(
            now=int(self._now().timestamp()),
            iss={"essential": True, "value": ISSUER},
            aud={"essential": True, "value": AUDIENCE},
            sub={"essential": True},
            sid={"essential": True},
            iat={"essential": True},
            exp={"essential": True},
        )
        try:
            claims = jwt.decode(token.reveal(), key, algorithms=[_ALGORITHM]).claims
            registry.validate(claims)
            return _Verified(Claims(UUID(claims["sub"]), UUID(claims["sid"])), int(claims["exp"]))
        except (JoseError, ValueError, TypeError, AttributeError):
            raise _invalid() from None

    async def rotate(self, *, revoke: bool = False) -> None:
        """Sign with a new key from now on. With `revoke`, tokens of older keys become invalid at once."""
        now = self._now()
        await self._store.rotate(_new_key(now), now)
        await self._store.prune(now + timedelta(seconds=1) if revoke else now - RETIRED_KEYS_STAY)
        await self._signals.publish(Topic.SETTINGS_CHANGED, name=SETTING)
        self._forget()

    async def _key_of(self, token: Secret) -> OKPKey | None:
        try:
            kid = jws.extract_compact(token.reveal().encode()).headers().get("kid")
        except (JoseError, ValueError, TypeError, AttributeError):
            return None
        if not isinstance(kid, str):
            return None
        if kid not in self._keys:
            await self._look()
        return self._keys.get(kid)

    async def _look(self) -> None:
        """Reload the keys, at most once a second, so that made-up key ids cannot keep the store busy."""
        async with self._looking:
            now = self._now()
            if self._keys and self._looked_at is not None and now - self._looked_at < timedelta(seconds=1):
                return
            keys: list[SigningKey] = []
            generation = -1
            while generation != self._generation:  # changed during the load: the result may be outdated
                generation = self._generation
                keys = await self._load_keys(now)
            good = [key for key in keys if key.retired_at is None or now < key.retired_at + RETIRED_KEYS_STAY]
            self._keys = {str(key.id): _import_key(key) for key in good}
            self._signing = str(next(key.id for key in good if key.retired_at is None))
            self._looked_at = now

    async def _load_keys(self, now: datetime) -> list[SigningKey]:
        """Return the stored keys, at least one."""
        keys = await self._store.all()
        if not keys:
            await self._store.rotate(_new_key(now), now, first=True)
            keys = await self._store.all()
        return keys

    def _on_changed(self, payload: Mapping[str, str]) -> None:
        if payload.get("name") == SETTING:
            self._forget()

    def _forget(self) -> None:
        self._generation += 1
        self._keys, self._signing, self._looked_at = {}, "", None
        self._verified.clear()


def _digest_of(token: Secret) -> bytes:
    return hashlib.sha256(token.reveal().encode(errors="surrogatepass")).digest()


def _new_key(now: datetime) -> SigningKey:
    private = json.dumps(OKPKey.generate_key("Ed25519").as_dict(private=True)).encode()
    return SigningKey(uuid4(), private, now)


def _import_key(key: SigningKey) -> OKPKey:
    return OKPKey.import_key(json.loads(key.private) | {"kid": str(key.id)})


def _not_good() -> Unauthenticated:
    return Unauthenticated("this link is not valid; create a new one")


def _invalid() -> Unauthenticated:
    return Unauthenticated(_INVALID)
