"""Metadata (SAML 2.0 Metadata): parsing the identity provider's, and creating our own."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from lxml import etree

from postern.domain.identity.saml import ServiceProvider
from postern.errors import Invalid
from postern.integrations.identity.identity_addresses import checked_url
from postern.integrations.identity.saml_xml import (
    METADATA,
    PROTOCOL,
    SIGNATURE,
    UnreadableSaml,
    moment_of,
    parsed_metadata,
    text_of,
)

REDIRECT = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect"
POST = "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST"
_MIN_RSA_BITS = 2048
_MOST_KEYS = 10
_MAX_ENTITY_ID = 1024  # SAML Core 8.3.6


@dataclass(frozen=True, slots=True)
class IdentityProvider:
    entity_id: str
    login_url: str
    certificates: tuple[x509.Certificate, ...]
    valid_until: datetime | None = None


def identity_provider_of(content: bytes, now: datetime, *, loopback: bool) -> IdentityProvider:
    """Parse metadata. `loopback`: its login page may be on this machine. Raises Invalid with what is missing."""
    try:
        root = parsed_metadata(content)
        if root.tag != f"{{{METADATA}}}EntityDescriptor":
            raise _wrong("it must be one EntityDescriptor; extract your provider's from a federation's list")
        entity_id = root.get("entityID", "")
        if not 1 <= len(entity_id) <= _MAX_ENTITY_ID:
            raise _wrong(f"its entityID must have 1 to {_MAX_ENTITY_ID} characters")
        valid_until = moment_of(root.get("validUntil"), "validUntil")
        if valid_until is not None and valid_until <= now:
            raise _wrong(f"it expired at {valid_until.isoformat()}; fetch it again")
        role = _role(root)
        if role.get("WantAuthnRequestsSigned") in ("true", "1"):
            raise _wrong("it requires signed requests (WantAuthnRequestsSigned), which this gateway does not send")
        return IdentityProvider(entity_id, _login_url(role, loopback=loopback), _certificates(role), valid_until)
    except UnreadableSaml as problem:
        raise _wrong(problem.message) from None


def service_provider_metadata(provider: ServiceProvider) -> bytes:
    """Return our metadata, for the identity provider's administrator."""
    root = etree.Element(f"{{{METADATA}}}EntityDescriptor", nsmap={"md": METADATA}, entityID=provider.entity_id)
    role = etree.SubElement(
        root,
        f"{{{METADATA}}}SPSSODescriptor",
        AuthnRequestsSigned="false",
        WantAssertionsSigned="true",
        protocolSupportEnumeration=PROTOCOL,
    )
    etree.SubElement(
        role,
        f"{{{METADATA}}}AssertionConsumerService",
        Binding=POST,
        Location=provider.acs_url,
        index="0",
        isDefault="true",
    )
    return etree.tostring(root, xml_declaration=True, encoding="UTF-8", pretty_print=True)


def _role(root: etree._Element) -> etree._Element:
    roles = [
        role
        for role in root.findall(f"{{{METADATA}}}IDPSSODescriptor")
        if PROTOCOL in role.get("protocolSupportEnumeration", "").split()
    ]
    if len(roles) != 1:
        raise _wrong("it must have exactly one IDPSSODescriptor for SAML 2.0")
    return roles[0]


def _login_url(role: etree._Element, *, loopback: bool) -> str:
    for service in role.findall(f"{{{METADATA}}}SingleSignOnService"):
        if service.get("Binding") == REDIRECT:
            location = service.get("Location", "")
            checked_url(location, loopback=loopback)
            return location
    raise _wrong("it has no SingleSignOnService with the binding HTTP-Redirect")


def _certificates(role: etree._Element) -> tuple[x509.Certificate, ...]:
    certificates = []
    for descriptor in role.findall(f"{{{METADATA}}}KeyDescriptor"):
        if descriptor.get("use", "signing") == "signing":
            path = f"{{{SIGNATURE}}}KeyInfo/{{{SIGNATURE}}}X509Data/{{{SIGNATURE}}}X509Certificate"
            certificates += [_certificate(text_of(element)) for element in descriptor.findall(path)]
    if not 1 <= len(certificates) <= _MOST_KEYS:
        raise _wrong(f"it must have 1 to {_MOST_KEYS} certificates for signing; it has {len(certificates)}")
    return tuple(certificates)


def _certificate(text: str) -> x509.Certificate:
    try:
        certificate = x509.load_der_x509_certificate(base64.b64decode("".join(text.split()), validate=True))
        key = certificate.public_key()
    except (binascii.Error, ValueError):
        raise _wrong("a certificate in it cannot be read") from None
    if isinstance(key, RSAPublicKey) and key.key_size < _MIN_RSA_BITS:
        raise _wrong(f"a certificate in it has an RSA key of less than {_MIN_RSA_BITS} bits")
    if not isinstance(key, RSAPublicKey | EllipticCurvePublicKey):
        raise _wrong("a certificate in it has a key that is neither an RSA nor an elliptic-curve key")
    return certificate


def _wrong(why: str) -> Invalid:
    return Invalid(f"the metadata of the identity provider cannot be used: {why}", field="idp_metadata")
