"""SSH keys as `ssh-keygen` writes them."""

from __future__ import annotations

import base64
import struct

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

CURVES = {"nistp256": ec.SECP256R1(), "nistp384": ec.SECP384R1(), "nistp521": ec.SECP521R1()}


def ed25519_line() -> str:
    return _line(ed25519.Ed25519PrivateKey.generate().public_key())


def ecdsa_line(curve: str = "nistp256") -> str:
    return _line(ec.generate_private_key(CURVES[curve]).public_key())


def rsa_line(bits: int = 2048) -> str:
    return _line(rsa.generate_private_key(65537, bits).public_key())


def sk_line(algorithm: str, application: bytes = b"ssh:") -> str:
    """Of a security key, made of the plain one."""
    plain = ed25519_line() if "ed25519" in algorithm else ecdsa_line()
    blob = base64.b64decode(plain.split()[1])
    behind = blob[4 + int.from_bytes(blob[:4], "big") :]
    return line(algorithm, behind + string(application))


def private_key() -> str:
    made = ed25519.Ed25519PrivateKey.generate()
    return made.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()


def line(algorithm: str, behind: bytes) -> str:
    """The key whose fields behind its algorithm are these."""
    return f"{algorithm} {base64.b64encode(string(algorithm.encode()) + behind).decode()}"


def string(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


def _line(key: ed25519.Ed25519PublicKey | ec.EllipticCurvePublicKey | rsa.RSAPublicKey) -> str:
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
