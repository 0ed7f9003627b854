"""WebAuthn (W3C, level 2): keys in hardware or in a browser as second factors, checked for this origin alone.

Only sessions in a browser can use one: the browser signs the page's origin, which must be the gateway's.
"""

from __future__ import annotations

import ipaddress
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
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

from postern.domain.principal import Principal
from postern.errors import Invalid, Unauthenticated

_NAME = "Postern"
_CHALLENGE = 32  # bytes


@dataclass(frozen=True, slots=True)
class Key:
    """An authenticator's key as it is kept."""

    credential_id: bytes
    public_key: bytes  # COSE

    def dump(self) -> bytes:
        kept = {"credential_id": self.credential_id.hex(), "public_key": self.public_key.hex()}
        return json.dumps(kept).encode()

    @classmethod
    def load(cls, kept: bytes) -> Key:
        values = json.loads(kept)
        return cls(bytes.fromhex(values["credential_id"]), bytes.fromhex(values["public_key"]))


def new_challenge() -> bytes:
    return secrets.token_bytes(_CHALLENGE)


class Authenticators:
    """`api_url` is where browsers find the gateway: its host is the relying party, its origin must be the page's."""

    def __init__(self, api_url: str) -> None:
        parts = urlsplit(api_url)
        self._host = parts.hostname or ""
        default = {"http": 80, "https": 443}.get(parts.scheme)
        host = f"[{self._host}]" if ":" in self._host else self._host
        self._origin = f"{parts.scheme}://{host}" + ("" if parts.port in (None, default) else f":{parts.port}")

    def creation(self, principal: Principal, challenge: bytes, known: Sequence[Key]) -> dict[str, Any]:
        """PublicKeyCredentialCreationOptions as JSON. Raises Invalid where browsers offer no WebAuthn."""
        try:
            ipaddress.ip_address(self._host)
        except ValueError:
            pass
        else:
            raise Invalid(
                f"WebAuthn needs a host name, and this gateway is at {self._host}: set POSTERN_PUBLIC_HOST, "
                "or use an authenticator app (totp)",
                field="kind",
            )
        options = webauthn.generate_registration_options(
            rp_id=self._host,
            rp_name=_NAME,
            user_name=principal.email,
            user_id=principal.id.bytes,
            user_display_name=principal.name,
            challenge=challenge,
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.DISCOURAGED,
                user_verification=UserVerificationRequirement.PREFERRED,
            ),
            exclude_credentials=[PublicKeyCredentialDescriptor(id=key.credential_id) for key in known],
        )
        shown: dict[str, Any] = json.loads(webauthn.options_to_json(options))
        return shown

    def created(self, credential: Mapping[str, Any], challenge: bytes) -> tuple[Key, int]:
        """The new key and its signature counter. Raises Invalid."""
        try:
            verified = webauthn.verify_registration_response(
                credential=dict(credential),
                expected_challenge=challenge,
                expected_rp_id=self._host,
                expected_origin=self._origin,
            )
        except (WebAuthnException, ValueError, TypeError, KeyError, AttributeError) as error:
            raise Invalid(f"credential: was not accepted: {error}", field="credential") from None
        return Key(verified.credential_id, verified.credential_public_key), verified.sign_count

    def request(self, challenge: bytes, known: Sequence[Key]) -> dict[str, Any]:
        """PublicKeyCredentialRequestOptions as JSON."""
        options = webauthn.generate_authentication_options(
            rp_id=self._host,
            challenge=challenge,
            allow_credentials=[PublicKeyCredentialDescriptor(id=key.credential_id) for key in known],
            user_verification=UserVerificationRequirement.PREFERRED,
        )
        shown: dict[str, Any] = json.loads(webauthn.options_to_json(options))
        return shown

    def signed(self, assertion: Mapping[str, Any], challenge: bytes, key: Key, counter: int) -> int:
        """The signature counter now. Raises Unauthenticated, also for a counter that did not grow: there is a clone
        of the authenticator then, or was."""
        try:
            verified = webauthn.verify_authentication_response(
                credential=dict(assertion),
                expected_challenge=challenge,
                expected_rp_id=self._host,
                expected_origin=self._origin,
                credential_public_key=key.public_key,
                credential_current_sign_count=counter,
            )
        except (WebAuthnException, ValueError, TypeError, KeyError, AttributeError) as error:
            raise Unauthenticated(f"the authenticator's answer was not accepted: {error}") from None
        return verified.new_sign_count


def credential_id_of(assertion: Mapping[str, Any]) -> bytes:
    """Which key an assertion says it is of; empty for one that cannot be read."""
    given = assertion.get("rawId", assertion.get("id"))
    try:
        return base64url_to_bytes(given) if isinstance(given, str) else b""
    except ValueError:
        return b""


def challenge_text(challenge: bytes) -> str:
    """As it is kept in a payload."""
    return bytes_to_base64url(challenge)


def challenge_of(text: str) -> bytes:
    return base64url_to_bytes(text)
