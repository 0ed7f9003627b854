"""The certificate of this gateway: the configured one, or one that it creates."""

from __future__ import annotations

import socket
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from postern.errors import Misconfigured
from postern.settings import Settings
from postern.transport import certificates
from postern.transport.certificates import TlsFiles
from postern.wiring import paths


def material(settings: Settings) -> TlsFiles:
    """Create or renew our own if no other is configured. Raises Misconfigured."""
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise Misconfigured(
            "POSTERN_TLS_CERT and POSTERN_TLS_KEY must be set together; set both or none", field="tls_cert"
        )
    if settings.tls_cert:
        issuer = Path(settings.tls_ca or settings.tls_cert)
        return TlsFiles(issuer, Path(settings.tls_cert), Path(settings.tls_key))
    names = certificates.server_names(settings.address, socket.gethostname(), settings.host, settings.public_host)
    return certificates.ensure(paths.certificates_folder(settings), names)


def is_certified(settings: Settings, name: str) -> bool:
    """Return whether the gateway's certificate is valid for that host name or address."""
    return certificates.is_for(material(settings).certificate, name)


def authority(settings: Settings) -> Path | None:
    """Return the CA certificate for clients; None if the system's CAs are enough (a publicly trusted certificate)."""
    if settings.tls_cert and not settings.tls_ca:
        return None
    return material(settings).authority


def authority_der(settings: Settings) -> bytes | None:
    """Return that CA for the keys of agents, which have room for one: of several in the file, the first that is
    self-signed."""
    path = authority(settings)
    if path is None:
        return None
    found_certificates = x509.load_pem_x509_certificates(path.read_bytes())
    root = next(
        (certificate for certificate in found_certificates if certificate.issuer == certificate.subject),
        found_certificates[0],
    )
    return root.public_bytes(Encoding.DER)
