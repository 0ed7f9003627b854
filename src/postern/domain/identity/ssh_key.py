"""Public keys in OpenSSH's form: one line of algorithm and base64 (RFC 4253 section 6.6, RFC 5656 section 3.1, RFC 8709
section 4; OpenSSH's PROTOCOL.u2f for those in a security key).

Each algorithm has one shape, and nothing may follow it: two spellings of one key would have two fingerprints, and a
rejected key could return in a different spelling.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from postern.domain.identity.ssh_wire import SshReader, string
from postern.domain.text import one_line
from postern.errors import Invalid

MOST_KEYS = 20  # of one user
MAX_NAME = 128  # characters
MIN_RSA, MAX_RSA = 2048, 16384  # bits; more is only dear to check
_MAX_LINE = 8_192  # characters; the largest RSA key takes 2,800
_MAX_EXPONENT = 64  # bits
_CURVES: Mapping[str, int] = {"nistp256": 32, "nistp384": 48, "nistp521": 66}  # bytes of a coordinate
_SK_SUFFIX = "@openssh.com"
_ALGORITHM = re.compile(r"(?:ssh|ecdsa|sk|rsa|x509v3)-[a-z0-9@.-]{1,60}")
_OPTION = re.compile(r"[A-Za-z-]+=|(?:no|permit|verify)-|restrict|cert-authority|pty|agent-forwarding|port-forwarding")
_PRIVATE = re.compile(r"PRIVATE KEY|PuTTY-User-Key-File|b3BlbnNzaC1rZXktdjE")  # at last "openssh-key-v1" in base64
_OTHER_FORM = re.compile(r"^-{2,}\s?BEGIN", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PublicKey:
    """`text` is OpenSSH's line without a comment; `fingerprint` is `SHA256:…`, as `ssh-keygen -l` prints it."""

    algorithm: str
    text: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class SshKey:
    """A public key by which a user logs in."""

    id: UUID
    org_id: UUID
    user_id: UUID
    name: str
    key: PublicKey
    created_at: datetime
    last_used_at: datetime | None = None


def public_key(text: str, field: str = "public_key") -> PublicKey:
    """Parse a line such as in ~/.ssh/id_ed25519.pub; what follows the key is a comment, and dropped.

    Raises Invalid for anything else, and never repeats the input: it may be a private key.
    """
    if _PRIVATE.search(text):
        raise Invalid(
            f"{field}: this is a private key, which must stay secret; it was not stored. Give the public key, from the "
            "file whose name ends in .pub",
            field=field,
        )
    if _OTHER_FORM.search(text):
        raise Invalid(
            f"{field}: give it on one line, in OpenSSH's format: ssh-keygen -i -f FILE converts it", field=field
        )
    line = text.strip(" \t\r\n")
    if not line or len(line) > _MAX_LINE or re.search(r"[\x00-\x08\x0a-\x1f\x7f]", line):
        raise Invalid(f"{field}: needs one public key on one line of at most {_MAX_LINE} characters", field=field)
    algorithm, _, rest = line.replace("\t", " ").partition(" ")
    if "-cert-v01@" in algorithm:
        raise Invalid(
            f"{field}: this is a certificate; give the key itself, or have an administrator add its authority: postern "
            "admin ssh-authorities create",
            field=field,
        )
    if algorithm not in _SHAPES:
        raise Invalid(f"{field}: {_unknown(algorithm)}; supported are {', '.join(_SHAPES)}", field=field)
    return key_of_wire(algorithm, _decode_base64(rest.lstrip(" ").partition(" ")[0]), field)


def key_of_wire(algorithm: str, blob: bytes, field: str) -> PublicKey:
    """Parse a key in wire format. Raises Invalid."""
    read = _SHAPES.get(algorithm)
    fault = f"the algorithm {algorithm!r} is not supported" if read is None else _fault(blob, algorithm, read)
    if fault is not None:
        raise Invalid(f"{field}: {fault}", field=field)
    return PublicKey(algorithm, f"{algorithm} {base64.b64encode(blob).decode()}", fingerprint_of(blob))


def certified_key(reader: SshReader, algorithm: str, data: bytes) -> PublicKey:
    """Return the key in a certificate, of which `reader` has read up to its fields; `data` is the whole of it.
    Raises ValueError, Invalid."""
    read, start = _SHAPES[algorithm], reader.at
    read(reader, algorithm)
    return key_of_wire(algorithm, string(algorithm.encode()) + data[start : reader.at], "certificate")


def fingerprint_of(blob: bytes) -> str:
    """Return the fingerprint of a key or certificate in wire format."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def check_key_name(name: str) -> str:
    """Return the name without surrounding blanks. Raises Invalid."""
    stripped = name.strip()
    if not 1 <= len(stripped) <= MAX_NAME or one_line(stripped) != stripped:
        raise Invalid(f"name: must be 1 to {MAX_NAME} printable characters on one line", field="name")
    return stripped


def _fault(blob: bytes, algorithm: str, read: Callable[[SshReader, str], str | None]) -> str | None:
    reader = SshReader(blob)
    try:
        if not blob:
            raise ValueError("not canonical base64")
        if reader.string() != algorithm.encode():
            return "the key has a different type than its name says"
        fault = read(reader, algorithm)
    except ValueError:
        return "the key after its type cannot be read; check that it was copied completely"
    if fault is None and not reader.is_done:
        return "there is extra data after the key; check that it was copied unchanged"
    return fault


def _rsa(reader: SshReader, _algorithm: str) -> str | None:
    exponent, modulus = reader.number(), reader.number()
    if not MIN_RSA <= modulus.bit_length() <= MAX_RSA:
        return (
            f"an RSA key must have {MIN_RSA} to {MAX_RSA} bits, and this one has {modulus.bit_length()}; create a new "
            "one: ssh-keygen -t ed25519"
        )
    if exponent < 3 or not exponent % 2 or exponent.bit_length() > _MAX_EXPONENT or not modulus % 2:
        return "this RSA key is not valid; create a new one: ssh-keygen -t ed25519"
    return None


def _ed25519(reader: SshReader, algorithm: str) -> str | None:
    if len(reader.string()) != 32:
        raise ValueError("length")
    return _application(reader) if algorithm.startswith("sk-") else None


def _ecdsa(reader: SshReader, algorithm: str) -> str | None:
    curve = algorithm.removesuffix(_SK_SUFFIX).rpartition("-")[2]
    named, point = reader.string(), reader.string()
    if named != curve.encode() or len(point) != 1 + 2 * _CURVES[curve] or point[0] != 4:  # uncompressed
        raise ValueError("point")
    return _application(reader) if algorithm.startswith("sk-") else None


def _application(reader: SshReader) -> str | None:
    """Check the application of a security key: only SSH's is accepted, so that signatures made for others do not
    count."""
    if not reader.string().startswith(b"ssh:"):
        return "this security key was not enrolled for SSH; create a new one: ssh-keygen -t ed25519-sk"
    return None


# How each is read: what it answers is what is wrong with the key, if it can be read at all.
_SHAPES: Mapping[str, Callable[[SshReader, str], str | None]] = {
    "ssh-ed25519": _ed25519,
    "sk-ssh-ed25519@openssh.com": _ed25519,
    **{f"ecdsa-sha2-{curve}": _ecdsa for curve in _CURVES},
    "sk-ecdsa-sha2-nistp256@openssh.com": _ecdsa,
    "ssh-rsa": _rsa,
}


ALGORITHMS = tuple(_SHAPES)
RSA_SIGNATURES = ("rsa-sha2-256", "rsa-sha2-512")  # RFC 8332; `ssh-rsa` would be SHA-1
SIGNATURES = (*(name for name in ALGORITHMS if name != "ssh-rsa"), *RSA_SIGNATURES)


def _unknown(algorithm: str) -> str:
    """Describe what is wrong with the first word; it is repeated only where it looks like an algorithm's name."""
    if algorithm == "ssh-dss":
        return "DSA keys are too weak for logins"
    if _OPTION.match(algorithm):
        return "options before a key are not supported; remove them"
    if _ALGORITHM.fullmatch(algorithm):
        return f"the algorithm {algorithm!r} is not supported"
    return "this is not a public key"


def _decode_base64(text: str) -> bytes:
    """Decode base64; empty where it is invalid, or not the canonical spelling."""
    try:
        blob = base64.b64decode(text, validate=True)
    except ValueError:
        return b""
    return blob if base64.b64encode(blob).decode() == text else b""
