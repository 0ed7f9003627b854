"""Time-based one-time passwords (RFC 6238): six digits, SHA-1, steps of 30 seconds, as every authenticator app
supports."""

from __future__ import annotations

import hmac
from datetime import datetime

import pyotp

ISSUER = "Postern"
STEP = 30  # seconds
_CLOCKS_DIFFER = 1  # steps that a code may be early or late (RFC 6238 section 5.2)


def new_key() -> str:
    """Return 160 random bits in base 32 (RFC 4226 section 4)."""
    return pyotp.random_base32(32)


def uri_of(key: str, email: str) -> str:
    """Return the content of the QR code for an authenticator app."""
    return pyotp.TOTP(key).provisioning_uri(name=email, issuer_name=ISSUER)


def step_of(key: str, code: str, now: datetime) -> int | None:
    """Return the time step of `code`; None when it matches none near `now`. The caller accepts a step only once."""
    totp = pyotp.TOTP(key)
    current = int(now.timestamp()) // STEP
    matching_step = None
    for step in range(max(current - _CLOCKS_DIFFER, 0), current + _CLOCKS_DIFFER + 1):
        if hmac.compare_digest(totp.generate_otp(step).encode(), code.encode(errors="replace")):
            matching_step = step
    return matching_step
