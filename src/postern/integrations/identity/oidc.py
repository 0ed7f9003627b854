"""OpenID Connect client: the authorization-code flow with PKCE and nonce, refresh, access tokens and claims about a
user (OpenID Connect Core 1.0, RFC 6749, RFC 7636, RFC 9207)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import math
import secrets
from datetime import timedelta
from typing import Any, TypeGuard
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from postern.domain.identity.auth_config import AuthConfig, OidcConfig
from postern.domain.identity.federation import FederationRule
from postern.domain.identity.identity import Identity
from postern.domain.identity.login import LoginMethod, Provided
from postern.domain.identity.openid import Begun, Granted
from postern.domain.secret import Secret
from postern.errors import Invalid, Unauthenticated, Unavailable
from postern.integrations.identity.directory import Directory, Metadata
from postern.integrations.identity.fetch import ProviderFetcher
from postern.integrations.identity.jwt import LONGEST, TokenVerifier, half_hash_matches
from postern.store.ports.common_ports import Clock

_MOST_GROUPS = 5_000
_ABSENT = object()


def missing(claims: dict[str, Any], groups_claim: str) -> bool:
    """Return True if a claim is missing that the userinfo endpoint may have."""
    return "email" not in claims or "name" not in claims or _find_claim(claims, groups_claim) is _ABSENT


def identity_of(issuer: str, subject: str, claims: dict[str, Any], groups_claim: str) -> Identity:
    """Return the identity. Raises Unauthenticated when the groups are invalid: keeping the previous ones could preserve
    rights that the provider has removed."""
    return Identity(
        issuer=issuer,
        subject=subject,
        email=_text(claims.get("email")),
        # Some providers encode a boolean as text.
        email_verified=claims.get("email_verified") is True or claims.get("email_verified") == "true",
        name=_text(claims.get("name")) or _text(claims.get("preferred_username")),
        picture=_text(claims.get("picture"))[:2048],
        groups=_groups(claims, groups_claim),
    )


def _groups(claims: dict[str, Any], name: str) -> frozenset[str] | None:
    value = _find_claim(claims, name)
    if value is _ABSENT:
        elsewhere = claims.get("_claim_names")  # distributed claims, Core 5.6.2: they are not fetched
        if isinstance(elsewhere, dict) and name in elsewhere:
            raise Unauthenticated(
                "the identity provider has too many groups for its token; configure it to "
                "send only those that Postern uses"
            )
        return None
    if value is None:
        return frozenset()
    groups = [value] if isinstance(value, str) else value
    if (
        not isinstance(groups, list)
        or len(groups) > _MOST_GROUPS
        or not all(isinstance(group, str) for group in groups)
    ):
        raise Unauthenticated(
            f"the identity provider's claim {name!r} is not a text or a list of at most {_MOST_GROUPS} texts"
        )
    return frozenset(group for group in groups if group)


def _find_claim(claims: dict[str, Any], name: str) -> Any:
    """Return a claim by its whole name, which may be a URL with dots in it; otherwise by its dotted path."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return _ABSENT
        value = value[part]
    return value


def _text(value: object) -> str:
    """Return the text; empty if it is not text, or cannot be stored."""
    if not isinstance(value, str) or any(character == "\0" or "\ud800" <= character <= "\udfff" for character in value):
        return ""
    return value


log = logging.getLogger(__name__)

ASKED_AGAIN = timedelta(hours=1)  # at the latest, if the provider can be asked without the user
_SHORTEST = timedelta(seconds=60)  # between two requests to the provider
_NO_IDENTITY = "the identity provider returned no ID token; allow the scope openid for this client"


class OpenIdClient:
    def __init__(self, fetcher: ProviderFetcher, now: Clock) -> None:
        self._fetcher = fetcher
        self._now = now
        self._directory = Directory(fetcher, now)
        self._tokens = TokenVerifier(self._directory, now)
        self._federated = TokenVerifier(Directory(fetcher, now, keys_only=True), now)

    async def check(self, config: AuthConfig) -> str:
        """Return the issuer, once metadata and keys are valid. Raises Invalid, Unavailable."""
        if config.method is not LoginMethod.OIDC or config.oidc is None:
            raise Invalid("auth_method: this client is for OpenID Connect only", field="auth_method")
        metadata = await self._directory.metadata(config.oidc.issuer_url)
        if not await self._directory.keys(metadata.issuer, None):
            raise Invalid("issuer_url: the provider publishes no key that verifies its tokens", field="issuer_url")
        return metadata.issuer

    async def begin(
        self, config: OidcConfig, *, redirect_uri: str, state: Secret, prompt: str = "", screen_hint: str = ""
    ) -> Begun:
        """Start a login. Raises Invalid, Unavailable."""
        metadata = await self._directory.metadata(config.issuer_url)
        nonce, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        scopes = dict.fromkeys(("openid", *config.scopes))
        prompts = dict.fromkeys(prompt.split())
        if "offline_access" in scopes and "none" not in prompts:
            prompts["consent"] = None  # strict providers issue no refresh token without it (Core section 11)
        parameters = {
            "response_type": "code",
            "client_id": config.client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(scopes),
            "state": state.reveal(),
            "nonce": nonce,
            "code_challenge": challenge_of(verifier),
            "code_challenge_method": "S256",
        }
        optional = {"audience": config.audience, "prompt": " ".join(prompts), "screen_hint": screen_hint}
        parameters |= {name: value for name, value in optional.items() if value}
        parts = urlsplit(metadata.authorization_endpoint)
        query = urlencode([*parse_qsl(parts.query, keep_blank_values=True), *parameters.items()])
        return Begun(urlunsplit(parts._replace(query=query)), nonce, verifier)

    async def finish(
        self, config: OidcConfig, begun: Begun, *, redirect_uri: str, code: str, issuer: str | None
    ) -> Granted:
        """Finish a login. `issuer` is the `iss` of the answer. Raises Unauthenticated, Unavailable."""
        metadata = await self._directory.metadata(config.issuer_url)
        if (issuer is not None or metadata.names_itself) and issuer != metadata.issuer:
            raise Unauthenticated("the answer is from a different identity provider than the request was sent to")
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
        answer = await self._token(config, metadata, form | {"code_verifier": begun.code_verifier})
        claims = await self._id_claims(config, answer)
        if not _same(claims.get("nonce"), begun.nonce):
            raise Unauthenticated("the identity provider's token is not valid: it is not for this login (nonce)")
        identity = await self._identity(config, metadata, claims, answer)
        return Granted(identity, self._read_confirmation(answer, claims.get("exp"), answer.get("refresh_token")))

    async def renew(self, config: OidcConfig, refresh: Secret, subject: str) -> Granted:
        """Refresh a login. Raises Unauthenticated when the provider no longer confirms it, Unavailable."""
        metadata = await self._directory.metadata(config.issuer_url)
        form = {"grant_type": "refresh_token", "refresh_token": refresh.reveal()}
        answer = await self._token(config, metadata, form)
        claims: dict[str, Any] = {"sub": subject}
        if answer.get("id_token") is not None:
            claims = await self._id_claims(config, answer)
            if not _same(claims.get("sub"), subject):
                raise Unauthenticated("the identity provider answered for a different user; log in again")
        identity = await self._identity(config, metadata, claims, answer, renewing=True)
        return Granted(
            identity,
            self._read_confirmation(answer, claims.get("exp"), answer.get("refresh_token") or refresh.reveal()),
        )

    async def subject_of(self, config: OidcConfig, token: Secret) -> str:
        """Return the owner of an access token. Only a token for `config.audience` counts; one for another audience, or
        an ID token, is rejected. Raises Unauthenticated, Unavailable."""
        if not config.audience:
            raise Unauthenticated("access tokens of the identity provider are not accepted; log in instead")
        if token.reveal().count(".") == 2:
            header, claims = await self._tokens.verify(token, issuer=config.issuer_url, audience=config.audience)
            declared = str(header.get("typ", "")).lower().removeprefix("application/") == "at+jwt"
            if not declared and {"nonce", "at_hash", "c_hash"} & set(claims):
                raise Unauthenticated("this is an ID token; send the access token")
            return _subject(claims)
        metadata = await self._directory.metadata(config.issuer_url)
        userinfo = await self._userinfo(metadata, token)
        if userinfo is None:
            raise Unauthenticated("the identity provider does not know this access token, or it has expired")
        return _subject(userinfo)

    async def claims_of(self, rule: FederationRule, token: Secret) -> dict[str, Any]:
        """Return the claims of a token that the rule's issuer signed for its audience, and for no other. Raises
        Unauthenticated, Unavailable."""
        _, claims = await self._federated.verify(
            token, issuer=rule.issuer_url, audience=rule.audience, algorithms=rule.algorithms, jwks=rule.jwks
        )
        if claims["aud"] not in (rule.audience, [rule.audience]):
            raise Unauthenticated(
                "the token is for other audiences, too, which could log in here with it; request one for this gateway "
                "alone"
            )
        return claims

    async def _token(self, config: OidcConfig, metadata: Metadata, form: dict[str, str]) -> dict[str, Any]:
        """Request a token at the token endpoint (RFC 6749 section 5)."""
        headers = {}
        if metadata.secret_in_body:
            form = form | {"client_id": config.client_id, "client_secret": config.client_secret.reveal()}
        else:
            pair = f"{quote(config.client_id, safe='')}:{quote(config.client_secret.reveal(), safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        answer = await self._fetcher.post(metadata.token_endpoint, form, loopback=metadata.loopback, headers=headers)
        if answer.status in (400, 401, 403):
            problem = answer.json().get("error")
            log.warning(
                "the identity provider %s rejected a request for a token: %s",
                metadata.issuer,
                str(problem)[:100].encode("unicode_escape").decode(),
            )
            if problem in ("invalid_client", "unauthorized_client"):
                raise Unavailable(
                    "the identity provider rejected the client ID or secret; check client_id and client_secret"
                )
            raise Unauthenticated("the identity provider does not confirm this login; log in again")
        if answer.status != 200:
            raise Unavailable(f"the identity provider answered {answer.status} to the request for a token; try again")
        content = answer.json()
        kind, token = content.get("token_type"), content.get("access_token")
        if not isinstance(token, str) or not isinstance(kind, str) or kind.lower() != "bearer" or len(token) > LONGEST:
            raise Unavailable("the identity provider returned no usable access token")
        if not isinstance(content.get("refresh_token"), str | None):
            raise Unavailable("the identity provider returned a refresh token that is not a text")
        return content

    async def _id_claims(self, config: OidcConfig, answer: dict[str, Any]) -> dict[str, Any]:
        """Return the ID token's claims, verified by Core 3.1.3.7; the caller compares the nonce."""
        text = answer.get("id_token")
        if not isinstance(text, str):
            raise Unauthenticated(_NO_IDENTITY)
        header, claims = await self._tokens.verify(Secret(text), issuer=config.issuer_url, audience=config.client_id)
        audience, party = claims["aud"], claims.get("azp")
        several = isinstance(audience, list) and len(audience) > 1
        if (party is not None or several) and party != config.client_id:
            raise Unauthenticated("the identity provider's token is not valid: it was issued to another client (azp)")
        at_hash = claims.get("at_hash")
        if at_hash is not None and not half_hash_matches(at_hash, answer["access_token"], header["alg"]):
            raise Unauthenticated(
                "the identity provider's token is not valid: it is for another access token (at_hash)"
            )
        return claims

    async def _identity(
        self,
        config: OidcConfig,
        metadata: Metadata,
        claims: dict[str, Any],
        answer: dict[str, Any],
        *,
        renewing: bool = False,
    ) -> Identity:
        """Return the identity. Claims that the ID token lacks are fetched from the userinfo endpoint."""
        subject = _subject(claims)
        if missing(claims, config.groups_claim) and metadata.userinfo_endpoint is not None:
            more = await self._userinfo(metadata, Secret(answer["access_token"]))
            if more is None and renewing:
                raise Unauthenticated("the identity provider does not confirm this login; log in again")
            if more is not None and not _same(more.get("sub"), subject):
                raise Unauthenticated("the identity provider's userinfo is about a different user")
            claims = (more or {}) | claims
        return identity_of(config.issuer_url, subject, claims, config.groups_claim)

    async def _userinfo(self, metadata: Metadata, token: Secret) -> dict[str, Any] | None:
        """Return the userinfo; None when the provider rejects the token."""
        if metadata.userinfo_endpoint is None:
            return None
        text = token.reveal()
        if not text.isascii() or not text.isprintable() or len(text) > LONGEST:
            return None
        headers = {"Authorization": f"Bearer {text}"}
        answer = await self._fetcher.get(metadata.userinfo_endpoint, loopback=metadata.loopback, headers=headers)
        if answer.status in (400, 401, 403):
            return None
        if answer.status != 200:
            raise Unavailable(f"the identity provider answered {answer.status} to the userinfo request; try again")
        return answer.json()

    def _read_confirmation(self, answer: dict[str, Any], id_expires: object, refresh: str | None) -> Provided:
        """Return the confirmation with its expiry: that of the access token, or else of the ID token."""
        now = self._now()
        seconds = answer.get("expires_in")
        if isinstance(seconds, str) and seconds.isdigit():
            seconds = int(seconds[:9])
        if _is_number(seconds):
            life = timedelta(seconds=max(0, min(seconds, 10**8)))
        elif _is_number(id_expires):
            life = timedelta(seconds=max(0, min(id_expires - now.timestamp(), 10**8)))
        else:
            life = ASKED_AGAIN
        life = max(life, _SHORTEST)
        return Provided(now + (min(life, ASKED_AGAIN) if refresh else life), Secret(refresh) if refresh else None)


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge (RFC 7636 section 4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def _subject(claims: dict[str, Any]) -> str:
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 1 <= len(subject) <= 255 or not subject.isprintable():
        raise Unauthenticated("the identity provider's answer has no subject (sub)")
    return subject


def _is_number(value: object) -> TypeGuard[int | float]:
    """Return True for a finite number: JSON in Python has NaN, infinities and integers beyond float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < 10**15 if isinstance(value, int) else math.isfinite(value)


def _same(value: object, expected: str) -> bool:
    return isinstance(value, str) and hmac.compare_digest(value.encode(errors="surrogatepass"), expected.encode())
