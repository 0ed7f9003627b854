"""The gateway's authority for client certificates, with which clients of protocols without a login log in.

Its key is derived from the server's first data key, so that it is the same in every process and after every start. It
signs one certificate for each credential of such a connection:

    subject CN = the credential's user name · serial number = the credential's identifier · clientAuth
    valid as long as the credential

The serial number binds the certificate to one credential: a later one of the same name has a different identifier.
Whether the credential is still valid is looked up at each login, as for passwords.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from postern.domain.identity.credential import ClientCertificate, Credential, Grant
from postern.domain.secret import Secret
from postern.errors import Unauthenticated
from postern.store.ports.target_ports import AccessStore

_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Postern client authority")])
_CURVE = ec.SECP256R1()
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_SEED = 48  # bytes: 128 bits more than the order has, so that the key is uniform (FIPS 186-5, A.2.1)
_BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
_NO_END = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)  # RFC 5280 section 4.1.2.5
_CLOCK_SKEW = timedelta(minutes=5)  # between the machines of one gateway


@dataclass(frozen=True, slots=True)
class _Authority:
    key: ec.EllipticCurvePrivateKey
    pem: str


@dataclass(frozen=True, slots=True)
class CertifiedClient:
    """What the certificate of a client says. TLS has verified that the authority signed it."""

    username: str
    serial: int

    @property
    def serial_text(self) -> str:
        return f"{self.serial:x}"

    @classmethod
    def read(cls, certificate: bytes) -> CertifiedClient:
        """Read a certificate, DER. Raises Unauthenticated for one without exactly one common name."""
        try:
            parsed = x509.load_der_x509_certificate(certificate)
            names = [str(name.value) for name in parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        except ValueError as error:
            raise Unauthenticated(f"the client certificate cannot be read: {error}") from None
        if len(names) != 1:
            raise Unauthenticated("the client certificate does not name one credential")
        return cls(names[0], parsed.serial_number)

    def require_grant(self, grant: Grant | None) -> Grant:
        """Return the credential of that user name, if the certificate was issued with it. Raises Unauthenticated."""
        if grant is None or grant.credential_id.int != self.serial:
            raise Unauthenticated(
                f"the client certificate {self.serial_text} is not that of a credential {self.username!r}; "
                "issue a new credential"
            )
        return grant


class ClientCertificates:
    def __init__(self, store: AccessStore) -> None:
        self._store = store
        self._authority: _Authority | None = None

    async def authority_pem(self) -> str:
        """Return the authority's own certificate. Raises Unavailable."""
        return (await self._open()).pem

    async def issue(self, credential: Credential) -> ClientCertificate:
        """Return a certificate for the credential, with a new private key. Raises Unavailable."""
        authority = await self._open()
        key = ec.generate_private_key(_CURVE)
        expires_at = _NO_END if credential.expires_at is None else credential.expires_at + timedelta(seconds=1)
        certificate = (
            _builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, credential.username)]), key.public_key())
            .serial_number(credential.id.int)
            .not_valid_before(credential.created_at - _CLOCK_SKEW)
            .not_valid_after(expires_at)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False
            )
            .sign(authority.key, hashes.SHA256())
        )
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return ClientCertificate(_pem(certificate), Secret(pem.decode()), f"{credential.id.int:x}")

    async def _open(self) -> _Authority:
        if self._authority is None:
            seed = bytes.fromhex((await self._store.client_authority_key()).reveal())
            self._authority = _authority_of(seed)
        return self._authority


def _authority_of(seed: bytes) -> _Authority:
    wide = HKDF(hashes.SHA256(), _SEED, salt=None, info=b"postern: P-256").derive(seed)
    key = ec.derive_private_key(int.from_bytes(wide) % (_ORDER - 1) + 1, _CURVE)
    certificate = (
        _builder(_NAME, key.public_key())
        .serial_number(1)
        .not_valid_before(_BEGIN)
        .not_valid_after(_NO_END)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _Authority(key, _pem(certificate))


def _builder(subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(_NAME)
        .public_key(key)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
