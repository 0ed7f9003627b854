"""Postern's own certificate authority, and the server certificate of its listeners.

A gateway must offer TLS from its first minute, before an administrator has bought a certificate. So it creates its own
authority (EC P-256, ten years) and a server certificate signed by it (about thirteen months). Clients verify with
`ca.crt` and `sslmode=verify-full`. Both are stored in one folder. `ensure` renews them when they are about to expire,
when the names change, or when a file is missing or unreadable: at each start, and the server certificate also while the
gateway runs. The authority is kept when only the server certificate is renewed, so clients need no new file.
"""

from __future__ import annotations

import fcntl
import os
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from postern.errors import Misconfigured

AUTHORITY_LIFE = timedelta(days=3650)
SERVER_LIFE = timedelta(days=397)  # from its first day to its last: common clients accept no more than 398
RENEW_BEFORE = timedelta(days=30)
# A new certificate is valid from a day before its creation. A gateway is minutes old when its first agents connect, and
# one with a slow clock, for example a time zone read as UTC, would reject it. This weakens nothing: only the owner of
# the key could present the certificate for the earlier time.
CLOCK_SKEW = timedelta(days=1)


# Paths, with what the system says of the files: equal if they are the same files, unchanged.
CertificateStamp = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class LoadedCertificate:
    """A certificate that can be served. `chain` and `key` are PEM, `der` is its first certificate."""

    context: ssl.SSLContext
    chain: bytes
    key: bytes
    der: bytes
    not_before: datetime
    not_after: datetime
    names: tuple[str, ...]

    def describe(self) -> str:
        return f"for {', '.join(self.names) or 'no name'}, valid until {self.not_after:%Y-%m-%d %H:%M} UTC"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files. Servers present `certificate` with `key`, which can be one file; clients trust `authority`."""

    authority: Path
    certificate: Path
    key: Path

    def server_context(self) -> ssl.SSLContext:
        """Return a context for TLS 1.2 or newer. Raises Misconfigured when the files cannot be used."""
        return self.load().context

    def stamp(self) -> CertificateStamp:
        """Return what changes with the files. Raises Misconfigured if one is missing."""
        try:
            found = [(str(path), path.stat()) for path in (self.certificate, self.key)]
        except OSError as error:
            raise self._unusable(error) from None
        return tuple((path, status.st_ino, status.st_mtime_ns, status.st_size) for path, status in found)

    def load(self, client_authority: str = "") -> LoadedCertificate:
        """Load the pair. `client_authority`, PEM: clients must have a certificate that it signed. Raises Misconfigured
        when the files cannot be used, or do not belong together."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if client_authority:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=client_authority)
            # A resumed session would not show the certificate again.
            context.options |= ssl.OP_NO_TICKET
            context.num_tickets = 0
        try:
            chain, key = self.certificate.read_bytes(), self.key.read_bytes()
            # Without a password it would ask for one at the terminal.
            context.load_cert_chain(self.certificate, self.key, password="")
            if (chain, key) != (self.certificate.read_bytes(), self.key.read_bytes()):
                raise ValueError("they were being replaced")
            certificates = x509.load_pem_x509_certificates(chain)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise self._unusable(error) from None
        leaf = certificates[0]
        chain = b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)  # without a key
        der, names = leaf.public_bytes(serialization.Encoding.DER), _names_of(leaf)
        return LoadedCertificate(context, chain, key, der, leaf.not_valid_before_utc, leaf.not_valid_after_utc, names)

    def _unusable(self, error: Exception) -> Misconfigured:
        return Misconfigured(
            f"the certificate {self.certificate} with key {self.key} cannot be used: {error}; "
            "check that both are PEM files and belong together",
            field="tls_cert",
        )


@dataclass(frozen=True, slots=True)
class _Issued:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def server_names(address: str, hostname: str, *more: str) -> tuple[str, ...]:
    """Return the names a server certificate is valid for: loopback by all its names, then the given ones, each once."""
    wildcards = {"", "0.0.0.0", "::"}  # noqa: S104  compared with, not bound to
    candidates = ("localhost", "127.0.0.1", "::1", hostname, address, *more)
    return tuple(dict.fromkeys(name for name in candidates if name not in wildcards))


def ensure(
    folder: Path, names: Iterable[str], *, now: datetime | None = None, keep_authority: bool = False
) -> TlsFiles:
    """Find or create `ca.crt`, `ca.key`, `server.crt` and `server.key` (keys 0600) in `folder` (0700 if created).

    `names` are host names and IP addresses. Safe to call at every start, by several processes: valid files are not
    changed. `keep_authority`: an authority that is about to expire stays, since clients need the file of a new one.
    """
    now = now or datetime.now(UTC)
    unique_names = tuple(dict.fromkeys(names))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    material = TlsFiles(folder / "ca.crt", folder / "server.crt", folder / "server.key")
    with _lock_folder(folder):
        authority = _load(material.authority, folder / "ca.key")
        if authority is None or (_ends_soon(authority.certificate, now) and not keep_authority):
            authority = _make_authority(now)
            _save(authority, material.authority, folder / "ca.key")
        server = _load(material.certificate, material.key)
        if server is None or _must_renew(server, authority, unique_names, now):
            _save(_make_server(authority, unique_names, now), material.certificate, material.key)
    return material


def _must_renew(server: _Issued, authority: _Issued, names: tuple[str, ...], now: datetime) -> bool:
    if not _fits(server.certificate, authority, names):
        return True
    # A certificate cannot outlive its authority: a new one would expire at the same time.
    is_last = server.certificate.not_valid_after_utc >= authority.certificate.not_valid_after_utc
    return _ends_soon(server.certificate, now) and not is_last


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Keep other processes out, which start at the same time."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _names_of(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    addresses = names.get_values_for_type(x509.IPAddress)
    return (*names.get_values_for_type(x509.DNSName), *map(str, addresses))


def is_for(certificate: Path, name: str) -> bool:
    """Return True if a client that connects to `name` would accept the certificate (RFC 6125 6.4): by the same name, by
    a wildcard for the first label, or by the address."""
    found_certificate = x509.load_pem_x509_certificate(certificate.read_bytes())
    try:
        names = found_certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    try:
        return ip_address(name) in names.get_values_for_type(x509.IPAddress)
    except ValueError:
        certificate_names = {each.lower() for each in names.get_values_for_type(x509.DNSName)}
        first, dot, rest = name.lower().partition(".")
        return name.lower() in certificate_names or (bool(first and dot) and f"*.{rest}" in certificate_names)


def _load(certificate: Path, key: Path) -> _Issued | None:
    """Load both files. Return None if one is missing or broken, or they do not belong together: then they are created
    anew."""
    try:
        found_certificate = x509.load_pem_x509_certificate(certificate.read_bytes())
        private = serialization.load_pem_private_key(key.read_bytes(), password=None)
    except (FileNotFoundError, ValueError):
        return None
    if not isinstance(private, ec.EllipticCurvePrivateKey) or private.public_key() != found_certificate.public_key():
        return None
    return _Issued(found_certificate, private)


def _ends_soon(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_after_utc - now < RENEW_BEFORE


def _fits(certificate: x509.Certificate, authority: _Issued, names: tuple[str, ...]) -> bool:
    try:
        certificate.verify_directly_issued_by(authority.certificate)
    except (InvalidSignature, ValueError, TypeError):
        return False
    extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return set(extension) == set(_alternatives(names))


def _alternatives(names: tuple[str, ...]) -> list[x509.GeneralName]:
    general_names: list[x509.GeneralName] = []
    for name in names:
        try:
            general_names.append(x509.IPAddress(ip_address(name)))
        except ValueError:
            general_names.append(x509.DNSName(_dns(name)))
    return general_names


def _dns(name: str) -> str:
    try:
        return name.encode("idna").decode()
    except UnicodeError:
        raise Misconfigured(
            f"{name!r} is neither a host name nor an IP address; set POSTERN_PUBLIC_HOST to the name clients use",
            field="public_host",
        ) from None


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _make_authority(now: datetime) -> _Issued:
    key = ec.generate_private_key(ec.SECP256R1())
    # The serial in the name distinguishes the authorities of two gateways in a client's list.
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Postern CA {os.urandom(4).hex()}")])
    certificate = (
        _builder(name, name, key.public_key())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _Issued(certificate, key)


def _make_server(authority: _Issued, names: tuple[str, ...], now: datetime) -> _Issued:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Postern gateway")])
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    start = now - CLOCK_SKEW
    end = min(start + SERVER_LIFE, authority.certificate.not_valid_after_utc)
    certificate = (
        _builder(subject, authority.certificate.subject, key.public_key())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.SubjectAlternativeName(_alternatives(names)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(issuer_key, critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    return _Issued(certificate, key)


def _save(issued: _Issued, certificate: Path, key: Path) -> None:
    pem = issued.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _write(key, pem, 0o600)
    _write(certificate, issued.certificate.public_bytes(serialization.Encoding.PEM), 0o644)


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read, at once: a crash leaves the old one, or none."""
    _write(path, data, 0o600)


def _write(path: Path, data: bytes, mode: int) -> None:
    """Write atomically: a crash leaves the old file."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    draft.replace(path)
