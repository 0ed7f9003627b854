"""Both sides of SCRAM (RFC 5802, 7677), for every protocol, with a cache of the keys that a client derives.

Derivation is the slow step (4096 rounds of SHA-256 and more). Its result depends on nothing but password, salt and
number of rounds, and RFC 5802 section 5.1 tells clients to cache it. A server's verifier contains the derived keys.

The gateway as a server offers SHA-256 only, as its verifiers are of that. As a client it also logs in by SHA-1, where a
target has nothing else.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import re
import secrets
from collections import OrderedDict
from typing import Final, NamedTuple

from scramp import ScramException
from scramp.utils import saslprep

from postern.domain.identity.credential import Verifier
from postern.domain.secret import Secret

# A login needs one entry per password of a target. Beyond a few hundred targets, the oldest are dropped.
_MOST = 512
_NONCE = 18
_MAX_DIGITS = 12  # of a number of rounds
SHA_1: Final = "sha1"
SHA_256: Final = "sha256"
_END_POINT: Final = "p=tls-server-end-point"
# Attributes that the RFC does not define may follow; their values are signed with the rest.
_EXTENSIONS: Final = r"(?:,[bdf-hj-loqtuw-zA-Z]=[^,\0]+)*"
_PRINTABLE: Final = r"[!-+\--~]+"
# Some clients leave the SASL user name empty, since an earlier message of their protocol has it.
_CLIENT_FIRST: Final = re.compile(rf"({_END_POINT}|y|n),,(n=([^,\0]*),r=({_PRINTABLE}){_EXTENSIONS})")
_ESCAPED: Final = re.compile(r"(?:[^=]|=2C|=3D)*", re.DOTALL)
_CLIENT_FINAL: Final = re.compile(rf"(c=([\w+/=]+),r=({_PRINTABLE}){_EXTENSIONS}),p=([\w+/=]+)", re.ASCII)


class Rejected(Exception):
    """The peer's message is wrong: it does not know the password, or does not speak SCRAM."""


class Keys(NamedTuple):
    """The keys derived from a password, a salt and a number of rounds. The password cannot be computed from them."""

    client: bytes
    server: bytes

    def __repr__(self) -> str:
        return "Keys(***)"


def derive(password: Secret, salt: bytes, rounds: int, digest: str = SHA_256) -> Keys:
    """Derive the keys. Takes a millisecond or more, and releases the interpreter's lock meanwhile."""
    salted = hashlib.pbkdf2_hmac(digest, _prepare_password(password.reveal()), salt, rounds)
    return Keys(_mac(salted, b"Client Key", digest), _mac(salted, b"Server Key", digest))


def _prepare_password(password: str) -> bytes:
    """Prepare a password as clients and servers of databases do: unchanged if SASLprep rejects it."""
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

    def find(self, password: Secret, salt: bytes, rounds: int, digest: str = SHA_256) -> Keys | None:
        name = self._name(password, salt, rounds, digest)
        keys = self._kept.get(name)
        if keys is not None:
            self._kept.move_to_end(name)
        return keys

    def keep(self, password: Secret, salt: bytes, rounds: int, keys: Keys, digest: str = SHA_256) -> None:
        self._kept[self._name(password, salt, rounds, digest)] = keys
        if len(self._kept) > _MOST:
            self._kept.popitem(last=False)

    def _name(self, password: Secret, salt: bytes, rounds: int, digest: str) -> bytes:
        inputs = b"%s %d %d " % (digest.encode(), rounds, len(salt)) + salt + password.reveal().encode()
        return _mac(self._secret, inputs)


class ScramExchange:
    """One login. `binding` is the channel-binding data if both sides can bind; `plus` announces that we do.

    Order: `first`, `challenge`, `final`, `check`. The last three raise Rejected.
    """

    def __init__(self, user: str, *, binding: bytes | None, plus: bool, digest: str = SHA_256) -> None:
        self._digest = digest
        header = "p=tls-server-end-point,," if plus else "y,," if binding else "n,,"
        bound = header.encode() + (binding or b"" if plus else b"")
        self._nonce = _encode_base64(secrets.token_bytes(_NONCE))
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={self._nonce}"
        self._bound = "c=" + _encode_base64(bound)
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
        rounds = parts[2][2:]
        if not self.salt or not rounds.isdecimal() or len(rounds) > _MAX_DIGITS:
            raise Rejected("the challenge has no salt or no rounds")
        self.rounds = int(rounds)

    def final(self, keys: Keys) -> bytes:
        bare = f"{self._bound},r={self._nonce}"
        signed = f"{self._bare},{self._challenge},{bare}".encode()
        stored_key = hashlib.new(self._digest, keys.client).digest()
        proof = _xor(keys.client, _mac(stored_key, signed, self._digest))
        self._signature = _mac(keys.server, signed, self._digest)
        return f"{bare},p={_encode_base64(proof)}".encode()

    def check(self, text: str) -> None:
        """Verify the server's own proof."""
        first_field = text.partition(",")[0]
        if (
            not self._signature
            or first_field[:2] != "v="
            or not hmac.compare_digest(_decode_base64(first_field[2:]), self._signature)
        ):
            raise Rejected("the server's signature is wrong")


def user_of(first: str) -> str:
    """Return the user name in a client's first message. Raises Rejected."""
    match = _CLIENT_FIRST.fullmatch(first)
    if match is None or _ESCAPED.fullmatch(match[3]) is None:
        raise Rejected("the first message is malformed")
    return match[3].replace("=2C", ",").replace("=3D", "=")


class ScramChallenge:
    """The server's side of one login, by the client's `verifier`. `binding` is the channel-binding data if we offered
    to bind; `plus` says that the client chose to.

    Order: `first`, `final`. Both return the answer, and raise Rejected.
    """

    def __init__(self, verifier: Verifier, *, binding: bytes | None, plus: bool) -> None:
        self._verifier = verifier
        self._binding = binding
        self._plus = plus
        self._signed = ""
        self._nonce = ""
        self._bound = ""

    def first(self, text: str) -> str:
        """Answer the client's first message with the challenge."""
        match = _CLIENT_FIRST.fullmatch(text)
        if match is None:
            raise Rejected("the first message is malformed")
        flag, bare, _, nonce = match.groups()
        if (flag == _END_POINT) != self._plus:
            raise Rejected("the client's channel binding does not fit its mechanism")
        if flag == "y" and self._binding is not None:
            raise Rejected("channel binding was removed from the mechanisms that we offered")
        bound = f"{flag},,".encode() + ((self._binding or b"") if self._plus else b"")
        self._bound = _encode_base64(bound)
        self._nonce = nonce + _encode_base64(secrets.token_bytes(_NONCE))
        challenge = f"r={self._nonce},s={_encode_base64(self._verifier.salt)},i={self._verifier.iterations}"
        self._signed = f"{bare},{challenge}"
        return challenge

    def final(self, text: str) -> str:
        """Check the client's proof, and answer with our own."""
        match = _CLIENT_FINAL.fullmatch(text)
        if match is None or not self._signed:
            raise Rejected("the final message is malformed")
        unproved, bound, nonce, proof = match.groups()
        if not hmac.compare_digest(bound, self._bound) or not hmac.compare_digest(nonce, self._nonce):
            raise Rejected("the proof belongs to another connection")
        signed = f"{self._signed},{unproved}".encode()
        stored_key = self._verifier.stored_key
        client_key = _xor(_decode_base64(proof), _mac(stored_key, signed))
        if not hmac.compare_digest(hashlib.sha256(client_key).digest(), stored_key):
            raise Rejected("the proof is wrong")
        return f"v={_encode_base64(_mac(self._verifier.server_key, signed))}"


def _mac(key: bytes, data: bytes, digest: str = SHA_256) -> bytes:
    return hmac.digest(key, data, digest)


def _xor(one: bytes, other: bytes) -> bytes:
    if len(one) != len(other):
        raise Rejected("the proof has the wrong length")
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).to_bytes(len(one), "big")


def _encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise Rejected("the value is not base64") from error
