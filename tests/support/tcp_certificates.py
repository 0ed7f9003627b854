"""Client certificates for the TCP listener of a test's gateway: those of its credentials, and forged ones."""

from __future__ import annotations

import socket
import ssl
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.support.clients import need
from tests.support.gateway import Gateway
from tests.support.redis import PACKAGES
from tests.support.tcp_services import TIMEOUT

from postern.domain.identity.credential import Issued
from postern.wiring import tls


@dataclass(frozen=True)
class CertificateFiles:
    """Files of a client, with the gateway's CA."""

    certificate: Path
    key: Path
    authority: Path

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority))
        context.load_cert_chain(self.certificate, self.key)
        return context


def authority_file(gateway: Gateway) -> Path:
    found = tls.authority(gateway.settings)
    assert found is not None
    return found


def write_files(gateway: Gateway, folder: Path, issued: Issued) -> CertificateFiles:
    assert issued.certificate is not None
    return _write(gateway, folder, issued.credential.username, issued.certificate.pem, issued.certificate.key.reveal())


def _write(gateway: Gateway, folder: Path, name: str, certificate: str, key: str) -> CertificateFiles:
    files = CertificateFiles(folder / f"{name}.crt", folder / f"{name}.key", authority_file(gateway))
    files.certificate.write_text(certificate)
    files.key.write_text(key)
    return files


@dataclass(frozen=True)
class Forger:
    """Signs client certificates with any key. Without one, they are self-signed."""

    key: ec.EllipticCurvePrivateKey | None = None
    issuer: str = "Postern client authority"

    def files(
        self,
        gateway: Gateway,
        folder: Path,
        issued: Issued,
        *,
        usage: x509.ObjectIdentifier = ExtendedKeyUsageOID.CLIENT_AUTH,
        serial: int | None = None,
        life: timedelta = timedelta(hours=1),
    ) -> CertificateFiles:
        """A certificate for the credential's user name, with its serial number unless another is given."""
        own = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issued.credential.username)])
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.issuer)])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer if self.key else subject)
            .public_key(own.public_key())
            .serial_number(serial or issued.credential.id.int)
            .not_valid_before(now - timedelta(days=2))
            .not_valid_after(now + life)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
            .sign(self.key or own, hashes.SHA256())
        )
        pem = own.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        public = certificate.public_bytes(serialization.Encoding.PEM)
        return _write(gateway, folder, f"forged-{certificate.serial_number:x}", public.decode(), pem.decode())


def dial_tls(gateway: Gateway, files: CertificateFiles) -> ssl.SSLSocket:
    connection = socket.create_connection(("localhost", gateway.settings.tcp_port), TIMEOUT)
    return files.context().wrap_socket(connection, server_hostname="localhost", suppress_ragged_eofs=False)


def redis_tls(
    gateway: Gateway, files: CertificateFiles, *words: str, stdin: str | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    command = [need("redis-cli", PACKAGES), "-h", "localhost", "-p", str(gateway.settings.tcp_port), "--tls"]
    command += ["--cert", str(files.certificate), "--key", str(files.key), "--cacert", str(files.authority), *words]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False, **more)


def tls_without_certificate(gateway: Gateway) -> ssl.SSLSocket:
    connection = socket.create_connection(("localhost", gateway.settings.tcp_port), TIMEOUT)
    context = ssl.create_default_context(cafile=str(authority_file(gateway)))
    return context.wrap_socket(connection, server_hostname="localhost", suppress_ragged_eofs=False)
