"""Verification of passwords against stored verifiers, for every protocol."""

from __future__ import annotations

import hashlib
import hmac

from postern.domain.identity.credential import Verifier
from postern.domain.secret import Secret


def decoy(user: str, secret: bytes) -> Verifier:
    """Return a verifier that no password matches, the same one for each call: an unknown user looks like a wrong
    password."""
    digest = hmac.new(secret, user.encode("utf-8", "surrogateescape"), hashlib.sha512).digest()
    return Verifier(4096, digest[:16], digest[16:48], digest[32:64])


def fits(password: Secret, verifier: Verifier) -> bool:
    """Return True if the password matches. Takes a millisecond or more, so do not call it on the event loop.

    Passwords of connection credentials are ASCII, which SASLprep does not change.
    """
    data = password.reveal().encode("utf-8", "surrogateescape")
    salted = hashlib.pbkdf2_hmac("sha256", data, verifier.salt, verifier.iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    return hmac.compare_digest(hashlib.sha256(client_key).digest(), verifier.stored_key)
