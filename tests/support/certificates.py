"""Certificates for targets, made by the product's own authority."""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

from postern.transport import certificates


@dataclass(frozen=True)
class Issued:
    """PEM texts."""

    authority: str
    certificate: bytes
    key: bytes

    @property
    def der(self) -> bytes:
        """The authority, as it stands in the key of an agent."""
        return ssl.PEM_cert_to_DER_cert(self.authority)


def issue(*names: str) -> Issued:
    """By an authority that nobody else has."""
    with tempfile.TemporaryDirectory() as folder:
        made = certificates.ensure(Path(folder), names)
        return Issued(made.authority.read_text(), made.certificate.read_bytes(), made.key.read_bytes())
