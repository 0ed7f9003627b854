"""A software authenticator, spoken to as a browser does: options and answers are JSON."""

from __future__ import annotations

import copy
from typing import Any

from soft_webauthn import SoftWebauthnDevice
from webauthn.helpers import base64url_to_bytes, bytes_to_base64url


class Browser:
    """A page at `origin`, with one authenticator plugged in."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.device = SoftWebauthnDevice()

    def create(self, options: dict[str, Any], *, origin: str | None = None) -> dict[str, Any]:
        given = copy.deepcopy(options) | {"attestation": "none"}
        given["challenge"] = base64url_to_bytes(given["challenge"])
        given["user"]["id"] = base64url_to_bytes(given["user"]["id"])
        return _as_json(self.device.create({"publicKey": given}, origin or self.origin))

    def get(self, options: dict[str, Any], *, origin: str | None = None) -> dict[str, Any]:
        given = copy.deepcopy(options)
        given["challenge"] = base64url_to_bytes(given["challenge"])
        return _as_json(self.device.get({"publicKey": given}, origin or self.origin))


def _as_json(credential: dict[str, Any]) -> dict[str, Any]:
    answer = {name: bytes_to_base64url(value) for name, value in credential["response"].items() if value is not None}
    identifier = bytes_to_base64url(credential["rawId"])
    return {"id": identifier, "rawId": identifier, "type": credential["type"], "response": answer}
