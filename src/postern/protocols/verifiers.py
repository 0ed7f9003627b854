"""Checking passwords against what is stored of them, whichever way a protocol brings them."""

from __future__ import annotations

import hashlib
import hmac

from postern.domain.identity.credential import Verifier
from postern.domain.secret import Secret


def decoy(user: str, secret: bytes) -> Verifier:
    """A verifier that no password fits, the same each time: an unknown user looks like a wrong password."""
    digest = hmac.new(secret, user.encode("utf-8", "surrogateescape"), hashlib.sha512).digest()
    return Verifier(4096, digest[:16], digest[16:48], digest[32:64])


def fits(password: Secret, verifier: Verifier) -> bool:
    """Whether it is that password. Takes a millisecond and more: not for the event loop.

    The passwords of connection credentials are ASCII, in which SASLprep changes nothing.
    """
    given = password.reveal().encode("utf-8", "surrogateescape")
    salted = hashlib.pbkdf2_hmac("sha256", given, verifier.salt, verifier.iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    return hmac.compare_digest(hashlib.sha256(client_key).digest(), verifier.stored_key)
