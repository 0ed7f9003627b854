"""Comparison of user names: e-mail addresses, user names of SCIM, and the user that an SSH client names.

One account has one name. Case does not matter, nor how an accent is composed (Unicode's form C). Everything else does:
a name in full-width letters, or with ligatures or invisible characters, is not a spelling of the plain one. Such a name
is rejected for an account, and matches no account at a login.
"""

from __future__ import annotations

import unicodedata


def is_plain(name: str) -> bool:
    """Return whether a name has no look-alike characters.

    Those are the ones that Unicode's form KC replaces, invisible ones (category Cf), and those outside of ASCII that
    become ASCII when they are composed or put into lower case (the Kelvin sign).
    """
    composed = unicodedata.normalize("NFC", name)
    if any(unicodedata.category(character) == "Cf" for character in composed):
        return False
    return unicodedata.normalize("NFKC", composed) == composed and composed.lower().isascii() == name.isascii()


def fold_name(name: str) -> str:
    """Return the form in which a name is stored and compared; "" where it is not plain, which matches no account."""
    return unicodedata.normalize("NFC", name).lower() if is_plain(name) else ""
