"""The certificate of this gateway: the configured one, one of an ACME server, or one that it creates."""

from __future__ import annotations

import socket
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from postern.domain.targets.http_hosts import AppDomain
from postern.errors import Misconfigured
from postern.integrations.acme.acme_order import AcmeRequest, check_acme
from postern.settings import Settings
from postern.transport import certificates
from postern.transport.certificates import TlsFiles
from postern.transport.served_certificate import HostCertificate, ServedCertificate
from postern.wiring import paths


def material(settings: Settings) -> TlsFiles:
    """Return the files to serve, as they are now. Create or renew our own if they are ours. Raises Misconfigured."""
    check_source(settings)
    return _foreign(settings) or ensure_own(settings)


def check_source(settings: Settings) -> None:
    """Raises Misconfigured if it is not clear where the certificate comes from, or if it cannot be ordered."""
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise Misconfigured(
            "POSTERN_TLS_CERT and POSTERN_TLS_KEY must be set together; set both or none", field="tls_cert"
        )
    if settings.tls_cert and settings.acme_directory:
        raise Misconfigured(
            "POSTERN_TLS_CERT and POSTERN_ACME_DIRECTORY are both set; use your own certificate, or one of the ACME "
            "server",
            field="acme_directory",
        )
    if settings.acme_directory:
        check_acme(acme_request(settings))
    if bool(settings.httpproxy_tls_cert) != bool(settings.httpproxy_tls_key):
        raise Misconfigured(
            "POSTERN_HTTPPROXY_TLS_CERT and POSTERN_HTTPPROXY_TLS_KEY must be set together; set both or none",
            field="httpproxy_tls_cert",
        )


def ensure_own(settings: Settings, *, keep_authority: bool = False) -> TlsFiles:
    """Create or renew Postern's own certificate."""
    names = certificates.server_names(settings.address, socket.gethostname(), settings.host, settings.public_host)
    wildcard = app_domain(settings).wildcard
    if wildcard is not None and not settings.httpproxy_tls_cert:
        names = (*names, wildcard)
    return certificates.ensure(paths.certificates_folder(settings), names, keep_authority=keep_authority)


def own_files(settings: Settings) -> TlsFiles:
    """Return where Postern's own certificate is stored."""
    folder = paths.certificates_folder(settings)
    return TlsFiles(folder / "ca.crt", folder / "server.crt", folder / "server.key")


def acme_files(settings: Settings) -> TlsFiles:
    """Return where the certificate of the ACME server is stored: with its key in one file, which is replaced as a
    whole."""
    file = paths.acme_folder(settings) / "server.pem"
    return TlsFiles(Path(settings.tls_ca) if settings.tls_ca else file, file, file)


def acme_request(settings: Settings) -> AcmeRequest:
    """Return what to order at the ACME server."""
    names = [name.strip().lower() for name in settings.acme_domains.split(",") if name.strip()]
    if not names and settings.public_host:
        names = [settings.public_host.lower()]
    return AcmeRequest(
        directory=settings.acme_directory,
        names=tuple(names),
        email=settings.acme_email,
        accepts_terms=settings.acme_accept_terms,
        authority=settings.acme_ca,
    )


def served_certificate(settings: Settings) -> ServedCertificate:
    """Return the certificate that a process presents, and that follows its files. Raises Misconfigured."""
    material(settings)
    files = host_files(settings)
    hosts = HostCertificate(app_domain(settings).name, ServedCertificate(lambda: files)) if files is not None else None
    return ServedCertificate(lambda: current_files(settings), hosts=hosts)


def app_domain(settings: Settings) -> AppDomain:
    """Return the domain of HTTP applications. Raises Misconfigured."""
    return AppDomain.read(settings.httpproxy_domain)


def host_files(settings: Settings) -> TlsFiles | None:
    """Return the files of the certificate for hosts of HTTP applications; None if it is the gateway's own."""
    if not settings.httpproxy_tls_cert:
        return None
    certificate = Path(settings.httpproxy_tls_cert)
    return TlsFiles(certificate, certificate, Path(settings.httpproxy_tls_key))


def apps_problem(settings: Settings) -> str:
    """Return why browsers do not accept the certificate at the hosts of HTTP applications; empty if they do, or if they
    use none. Raises OSError, ValueError."""
    domain = app_domain(settings)
    files = host_files(settings) or current_files(settings)
    if domain.wildcard is None or not files.certificate.exists():
        return ""
    if certificates.is_for(files.certificate, domain.host_of("any")):
        return ""
    return f"{files.certificate} is not valid for {domain.wildcard}"


def current_files(settings: Settings) -> TlsFiles:
    """Return the files to serve, as they are now. Creates nothing."""
    return _foreign(settings) or own_files(settings)


def _foreign(settings: Settings) -> TlsFiles | None:
    """Return the files of a certificate that Postern has not created; None if there are none, or none yet."""
    if settings.tls_cert:
        issuer = Path(settings.tls_ca or settings.tls_cert)
        return TlsFiles(issuer, Path(settings.tls_cert), Path(settings.tls_key))
    if settings.acme_directory and (issued := acme_files(settings)).certificate.exists():
        return issued
    return None


def is_certified(settings: Settings, name: str) -> bool:
    """Return whether the gateway's certificate is valid for that host name or address."""
    return certificates.is_for(material(settings).certificate, name)


def authority(settings: Settings) -> Path | None:
    """Return the CA certificate for clients; None if the system's CAs are enough (a publicly trusted certificate)."""
    if settings.tls_ca:
        return Path(settings.tls_ca)
    if settings.tls_cert or settings.acme_directory:
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
