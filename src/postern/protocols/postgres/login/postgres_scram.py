"""The client's side of SCRAM-SHA-256 (RFC 5802, 7677), with a cache of derived keys.

Derivation is the slow step (4096 rounds of SHA-256 and more). Its result depends on nothing but password, salt and
number of rounds, and RFC 5802 section 5.1 tells clients to cache it. The server's side is in the library; see
`login.authenticate`.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import secrets
from collections import OrderedDict
from typing import NamedTuple

from scramp import ScramException
from scramp.utils import saslprep

from postern.domain.secret import Secret

# A login needs one entry per password of a target. Beyond a few hundred targets, the oldest are dropped.
_MOST = 512
_NONCE = 18


class Rejected(Exception):
    """The server's response is wrong: it does not know the password, or does not speak SCRAM."""


class Keys(NamedTuple):
    """The keys derived from a password, a salt and a number of rounds. The password cannot be computed from them."""

    client: bytes
    server: bytes

    def __repr__(self) -> str:
        return "Keys(***)"


def derive(password: Secret, salt: bytes, rounds: int) -> Keys:
    """Derive the keys. Takes a millisecond or more, and releases the interpreter's lock meanwhile."""
    salted = hashlib.pbkdf2_hmac("sha256", _prepare_password(password.reveal()), salt, rounds)
    return Keys(_mac(salted, b"Client Key"), _mac(salted, b"Server Key"))


def _prepare_password(password: str) -> bytes:
    """Prepare a password as PostgreSQL's clients and servers do: unchanged if SASLprep rejects it."""
    if not (password.isascii() and password.isprintable()):
        with contextlib.suppress(ScramException):
            password = saslprep(password)
    return password.encode()


class KeyCache:
    """Keys of logins that succeeded, in memory only. A changed password or salt is a new entry, so none is ever stale.

    Entries are found by a digest under a key of this process, so that no passwords are stored here.
    """

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)
        self._kept: OrderedDict[bytes, Keys] = OrderedDict()

    def find(self, password: Secret, salt: bytes, rounds: int) -> Keys | None:
        name = self._name(password, salt, rounds)
        keys = self._kept.get(name)
        if keys is not None:
            self._kept.move_to_end(name)
        return keys

    def keep(self, password: Secret, salt: bytes, rounds: int, keys: Keys) -> None:
        self._kept[self._name(password, salt, rounds)] = keys
        if len(self._kept) > _MOST:
            self._kept.popitem(last=False)

    def _name(self, password: Secret, salt: bytes, rounds: int) -> bytes:
        return _mac(self._secret, b"%d %d " % (rounds, len(salt)) + salt + password.reveal().encode())


class ScramExchange:
    """One login. `binding` is the channel-binding data if both sides can bind; `plus` announces that we do.

    Order: `first`, `challenge`, `final`, `check`. The last three raise Rejected.
    """

    def __init__(self, user: str, *, binding: bytes | None, plus: bool) -> None:
        header = "p=tls-server-end-point,," if plus else "y,," if binding else "n,,"
        bound = header.encode() + (binding or b"" if plus else b"")
        self._nonce = base64.b64encode(secrets.token_bytes(_NONCE)).decode()
        # PostgreSQL uses the user of the startup message; other servers may use this one.
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={self._nonce}"
        self._bound = "c=" + base64.b64encode(bound).decode()
        self.first = (header + self._bare).encode()
        self._challenge = ""
        self._signature = b""
        self.salt = b""
        self.rounds = 0

    def challenge(self, text: str) -> None:
        """Set `salt` and `rounds`. The caller checks that the number of rounds is reasonable."""
        parts = text.split(",")
        if len(parts) < 3 or [part[:2] for part in parts[:3]] != ["r=", "s=", "i="] or not text.isascii():
            raise Rejected("the challenge is malformed")
        nonce = parts[0][2:]
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise Rejected("the challenge belongs to another client")
        self._challenge, self._nonce = text, nonce
        self.salt = _decode_base64(parts[1][2:])
        if not self.salt or not parts[2][2:].isdecimal():
            raise Rejected("the challenge has no salt or no rounds")
        self.rounds = int(parts[2][2:])

    def final(self, keys: Keys) -> bytes:
        bare = f"{self._bound},r={self._nonce}"
        signed = f"{self._bare},{self._challenge},{bare}".encode()
        mask = _mac(hashlib.sha256(keys.client).digest(), signed)
        proof = bytes(a ^ b for a, b in zip(keys.client, mask, strict=True))
        self._signature = _mac(keys.server, signed)
        return f"{bare},p={base64.b64encode(proof).decode()}".encode()

    def check(self, text: str) -> None:
        """Verify the server's own proof."""
        first_field = text.partition(",")[0]
        if (
            not self._signature
            or first_field[:2] != "v="
            or not hmac.compare_digest(_decode_base64(first_field[2:]), self._signature)
        ):
            raise Rejected("the server's signature is wrong")


def _mac(key: bytes, data: bytes) -> bytes:
    return hmac.digest(key, data, "sha256")


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise Rejected("the value is not base64") from error
