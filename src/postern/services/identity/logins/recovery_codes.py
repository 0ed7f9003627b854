"""Recovery codes: ten one-time codes for users who lost their other factor. Only hashes are stored.

A code has 80 random bits, too many to try, so a plain SHA-256 is enough.
"""

from __future__ import annotations

import base64
import hashlib
import secrets

COUNT = 10
_BYTES, _GROUP = 10, 4


def new_codes() -> list[str]:
    """Return codes as they are shown: `abcd-efgh-ijkl-mnop`."""
    return [_group_code(base64.b32encode(secrets.token_bytes(_BYTES)).decode().lower()) for _ in range(COUNT)]


def digest_of(code: str) -> bytes:
    """Return the hash of a code, whatever its case, hyphens and blanks."""
    plain = "".join(code.lower().replace("-", "").split())
    return hashlib.sha256(plain.encode(errors="replace")).digest()


def _group_code(code: str) -> str:
    return "-".join(code[start : start + _GROUP] for start in range(0, len(code), _GROUP))
