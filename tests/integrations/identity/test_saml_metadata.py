"""What is read from an identity provider's SAML metadata, and what is rejected."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from postern.errors import Invalid
from postern.integrations.identity.saml_metadata import IdentityProvider, identity_provider_of

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def certificate(key: Key) -> str:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "idp")])
    made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(NOW - timedelta(days=1)).not_valid_after(NOW + timedelta(days=1))
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return base64.b64encode(made.sign(key, algorithm).public_bytes(serialization.Encoding.DER)).decode()


GOOD = certificate(ec.generate_private_key(ec.SECP256R1()))


def descriptor(value: str, use: str = ' use="signing"') -> str:
    return (
        f'<KeyDescriptor{use}><KeyInfo xmlns="http://www.w3.org/2000/09/xmldsig#"><X509Data><X509Certificate>{value}'
        "</X509Certificate></X509Data></KeyInfo></KeyDescriptor>"
    )


def metadata(
    *,
    keys: str | None = None,
    root: str = "",
    role: str = "",
    binding: str = "HTTP-Redirect",
    location: str = "https://idp.example/sso?tenant=1",
) -> str:
    return (
        f'<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="https://idp.example/m"{root}>'
        f"<!-- comments are usual --><IDPSSODescriptor{role} "
        'protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">'
        f"{descriptor(GOOD) if keys is None else keys}"
        f'<SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:{binding}" Location="{location}"/>'
        "</IDPSSODescriptor></EntityDescriptor>"
    )


def read(text: str, *, loopback: bool = False) -> IdentityProvider:
    return identity_provider_of(text.encode(), NOW, loopback=loopback)


def test_metadata_has_entity_id_login_url_and_certificates() -> None:
    found = read(metadata(root=' validUntil="2026-01-03T00:00:00Z"'))
    assert (found.entity_id, found.login_url) == ("https://idp.example/m", "https://idp.example/sso?tenant=1")
    assert found.valid_until == datetime(2026, 1, 3, tzinfo=UTC)
    assert len(found.certificates) == 1


def test_all_signing_certificates_are_read_and_encryption_ones_skipped() -> None:
    keys = descriptor(GOOD) + descriptor(certificate(rsa.generate_private_key(65537, 2048)), "")
    assert len(read(metadata(keys=keys + descriptor("not even one", ' use="encryption"'))).certificates) == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (metadata(keys=""), "1 to 10 certificates"),
        (metadata(keys=descriptor(GOOD) * 11), "1 to 10 certificates"),
        (metadata(keys=descriptor("AAAA")), "cannot be read"),
        (metadata(keys=descriptor(certificate(rsa.generate_private_key(65537, 1024)))), "2048"),
        (metadata(keys=descriptor(certificate(ed25519.Ed25519PrivateKey.generate()))), "neither an RSA nor"),
        (metadata(binding="HTTP-POST"), "HTTP-Redirect"),
        (metadata(location="http://idp.example/sso"), "https"),
        (metadata(location="javascript:alert(1)"), "https"),
        (metadata(location="http://127.0.0.1/sso"), "https"),
        (metadata(role=' WantAuthnRequestsSigned="true"'), "WantAuthnRequestsSigned"),
        (metadata(root=' validUntil="2026-01-01T00:00:00Z"'), "it expired at"),
        (metadata(root=' validUntil="tomorrow"'), "not a valid timestamp"),
        (metadata().replace("https://idp.example/m", ""), "entityID"),
        (metadata().replace("https://idp.example/m", "x" * 1025), "entityID"),
        (metadata().replace("IDPSSODescriptor", "SPSSODescriptor"), "IDPSSODescriptor"),
        (metadata().replace(":SAML:2.0:protocol", ":SAML:1.1:protocol"), "IDPSSODescriptor"),
        ('<EntitiesDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata"/>', "one EntityDescriptor"),
        ('<!DOCTYPE a [<!ENTITY x "x">]>' + metadata(), "document type"),
        ("<html>log in first</html>", "one EntityDescriptor"),
        ("", "not well-formed"),
    ],
)
def test_unusable_metadata_is_rejected_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(Invalid) as refused:
        read(text)
    assert reason in refused.value.message


def test_loopback_login_url_is_accepted_for_a_loopback_provider() -> None:
    local = metadata(location="http://127.0.0.1:8080/sso")
    assert read(local, loopback=True).login_url == "http://127.0.0.1:8080/sso"
