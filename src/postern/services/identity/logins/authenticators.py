"""WebAuthn (W3C, level 2): hardware or browser keys as second factors, checked for this origin alone.

Only browsers can use one: the browser signs the page's origin, which must be the gateway's.
"""

from __future__ import annotations

import ipaddress
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

import webauthn
from webauthn.helpers import base64url_to_bytes, bytes_to_base64url
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from postern.domain.identity.principal import Principal
from postern.domain.server import ServerConfig
from postern.errors import Invalid, Unauthenticated

_NAME = "Postern"
_CHALLENGE = 32  # bytes


@dataclass(frozen=True, slots=True)
class Key:
    """An authenticator's key as it is stored."""

    credential_id: bytes
    public_key: bytes  # COSE

    def dump(self) -> bytes:
        values = {"credential_id": self.credential_id.hex(), "public_key": self.public_key.hex()}
        return json.dumps(values).encode()

    @classmethod
    def load(cls, data: bytes) -> Key:
        values = json.loads(data)
        return cls(bytes.fromhex(values["credential_id"]), bytes.fromhex(values["public_key"]))


def new_challenge() -> bytes:
    return secrets.token_bytes(_CHALLENGE)


class Addressed(Protocol):
    """The source of the gateway's public address."""

    async def current(self) -> ServerConfig: ...


@dataclass(frozen=True, slots=True)
class _Place:
    host: str
    origin: str


class Authenticators:
    """The WebAuthn relying party: its host, and the origin of its pages, are the gateway's as currently configured."""

    def __init__(self, server: Addressed) -> None:
        self._server = server

    async def registration_options(self, principal: Principal, challenge: bytes, keys: Sequence[Key]) -> dict[str, Any]:
        """Return PublicKeyCredentialCreationOptions as JSON. Raises Invalid where browsers do not support WebAuthn."""
        place = await self._place()
        try:
            ipaddress.ip_address(place.host)
        except ValueError:
            pass
        else:
            raise Invalid(
                f"WebAuthn needs a host name, and this gateway is at {place.host}: set POSTERN_PUBLIC_HOST, "
                "or use an authenticator app (totp)",
                field="kind",
            )
        options = webauthn.generate_registration_options(
            rp_id=place.host,
            rp_name=_NAME,
            user_name=principal.email,
            user_id=principal.id.bytes,
            user_display_name=principal.name,
            challenge=challenge,
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.DISCOURAGED,
                user_verification=UserVerificationRequirement.PREFERRED,
            ),
            exclude_credentials=[PublicKeyCredentialDescriptor(id=key.credential_id) for key in keys],
        )
        json_options: dict[str, Any] = json.loads(webauthn.options_to_json(options))
        return json_options

    async def verify_registration(self, credential: Mapping[str, Any], challenge: bytes) -> tuple[Key, int]:
        """Return the new key and its signature counter. Raises Invalid."""
        place = await self._place()
        try:
            verified = webauthn.verify_registration_response(
                credential=dict(credential),
                expected_challenge=challenge,
                expected_rp_id=place.host,
                expected_origin=place.origin,
            )
        except (WebAuthnException, ValueError, TypeError, KeyError, AttributeError) as error:
            raise Invalid(f"credential: was not accepted: {error}", field="credential") from None
        return Key(verified.credential_id, verified.credential_public_key), verified.sign_count

    async def assertion_options(self, challenge: bytes, keys: Sequence[Key]) -> dict[str, Any]:
        """Return PublicKeyCredentialRequestOptions as JSON."""
        place = await self._place()
        options = webauthn.generate_authentication_options(
            rp_id=place.host,
            challenge=challenge,
            allow_credentials=[PublicKeyCredentialDescriptor(id=key.credential_id) for key in keys],
            user_verification=UserVerificationRequirement.PREFERRED,
        )
        json_options: dict[str, Any] = json.loads(webauthn.options_to_json(options))
        return json_options

    async def verify_assertion(self, assertion: Mapping[str, Any], challenge: bytes, key: Key, counter: int) -> int:
        """Return the new signature counter.

        Raises Unauthenticated, also for a counter that did not grow, which indicates a cloned authenticator.
        """
        place = await self._place()
        try:
            verified = webauthn.verify_authentication_response(
                credential=dict(assertion),
                expected_challenge=challenge,
                expected_rp_id=place.host,
                expected_origin=place.origin,
                credential_public_key=key.public_key,
                credential_current_sign_count=counter,
            )
        except (WebAuthnException, ValueError, TypeError, KeyError, AttributeError) as error:
            raise Unauthenticated(f"the authenticator's answer was not accepted: {error}") from None
        return verified.new_sign_count

    async def _place(self) -> _Place:
        parts = urlsplit((await self._server.current()).api_url)
        name = parts.hostname or ""
        default = {"http": 80, "https": 443}.get(parts.scheme)
        host = f"[{name}]" if ":" in name else name
        return _Place(name, f"{parts.scheme}://{host}" + ("" if parts.port in (None, default) else f":{parts.port}"))


def credential_id_of(assertion: Mapping[str, Any]) -> bytes:
    """Return the key's id in an assertion; empty where it cannot be read."""
    raw_id = assertion.get("rawId", assertion.get("id"))
    try:
        return base64url_to_bytes(raw_id) if isinstance(raw_id, str) else b""
    except ValueError:
        return b""


def challenge_text(challenge: bytes) -> str:
    """Return the challenge as stored in a payload."""
    return bytes_to_base64url(challenge)


def challenge_of(text: str) -> bytes:
    return base64url_to_bytes(text)
