"""An authority for SSH certificates: OpenSSH's own `ssh-keygen`."""

from __future__ import annotations

import base64
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.public_keys import string


@dataclass
class Authority:
    """Its keys are below `folder`."""

    folder: Path
    kind: str = "ed25519"

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._make("ca", self.kind)

    @property
    def line(self) -> str:
        return " ".join((self.folder / "ca.pub").read_text().split()[:2])

    def sign(self, *options: str, kind: str = "ed25519", name: str = "user") -> bytes:
        """A certificate as it stands on the wire, of a new key of that kind. `options` are `ssh-keygen`'s."""
        self._make(name, kind)
        _run("-s", str(self.folder / "ca"), "-I", "ann's laptop", "-q", *options, str(self.folder / f"{name}.pub"))
        return base64.b64decode((self.folder / f"{name}-cert.pub").read_text().split()[1])

    def _make(self, name: str, kind: str) -> None:
        for path in self.folder.glob(f"{name}*"):
            path.unlink()
        size = ("-b", "2048") if kind == "rsa" else ()  # of the default one a key takes thrice as long to make
        _run("-q", "-t", kind, *size, "-N", "", "-C", "", "-f", str(self.folder / name))


def fields(certificate: bytes) -> list[bytes]:
    """Of one of Ed25519: its parts, each in the form of the wire."""
    found, at = [], 0
    for size in (None, None, None, 8, 4, None, None, 8, 8, None, None, None, None, None):
        end = at + (size if size is not None else 4 + int.from_bytes(certificate[at : at + 4], "big"))
        found.append(certificate[at:end])
        at = end
    assert at == len(certificate)
    return found


def changed(certificate: bytes, part: int, content: bytes) -> bytes:
    """With another content of one of its strings; its signature is then wrong, which is not checked here."""
    parts = fields(certificate)
    parts[part] = string(content)
    return b"".join(parts)


def _run(*arguments: str) -> None:
    subprocess.run(["ssh-keygen", *arguments], check=True, capture_output=True, stdin=subprocess.DEVNULL)
