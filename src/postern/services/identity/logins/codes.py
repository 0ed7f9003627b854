"""Codes that users carry from a terminal to a browser (RFC 8628 section 6.1).

They are short, so only logged-in users can try them, a few times each.
"""

from __future__ import annotations

import re
import secrets

from postern.errors import NotFound

_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"  # no vowels: no words; 8 of them have 34 bits
_LENGTH = 8
_CODE = re.compile(f"[{_LETTERS}]{{{_LENGTH}}}")


def new_code() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))


def format_code(code: str) -> str:
    """Return the code as two halves."""
    return f"{code[:4]}-{code[4:]}"


def plain(text: str) -> str:
    """Return the code as created. Users type blanks, hyphens and lower-case letters. Raises NotFound."""
    code = re.sub(r"[\s-]", "", text[:64]).upper()
    if not _CODE.fullmatch(code):
        raise no_such_code()
    return code


def no_such_code() -> NotFound:
    return NotFound("this code is unknown or has expired; check the terminal, or start again there")
