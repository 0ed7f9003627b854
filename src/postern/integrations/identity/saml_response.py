"""Verification of a provider's answer, and its assertion about a user (SAML 2.0 Core 3.4.1.4, Profiles 4.1.4.2 and
4.1.4.3).

Everything that identifies a user is read from the bytes whose signature was verified. The received document only shows
where they are, so wrapping a genuine assertion has no effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lxml import etree
from signxml.algorithms import DigestAlgorithm, SignatureMethod
from signxml.exceptions import InvalidCertificate, SignXMLException
from signxml.verifier import SignatureConfiguration, VerifyResult, XMLVerifier

from postern.domain.identity.auth_config import SamlConfig
from postern.domain.identity.identity import Identity
from postern.domain.identity.saml import Asserted, ServiceProvider
from postern.errors import Denied, Unauthenticated
from postern.integrations.identity.saml_metadata import IdentityProvider
from postern.integrations.identity.saml_xml import (
    ASSERTION,
    PROTOCOL,
    SIGNATURE,
    UnreadableSaml,
    moment_of,
    parsed_message,
    text_of,
)

Attributes = Mapping[str, tuple[str, ...]]

_TRANSIENT = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"
_EMAIL_FORMAT = "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"
_CLAIMS = "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/"
_EMAILS = ("email", "mail", "emailAddress", "urn:oid:0.9.2342.19200300.100.1.3", _CLAIMS + "emailaddress")
_NAMES = (
    "name",
    "displayName",
    "urn:oid:2.16.840.1.113730.3.1.241",
    "http://schemas.microsoft.com/identity/claims/displayname",
    "cn",
    "urn:oid:2.5.4.3",
    _CLAIMS + "name",
)
_MAX_SUBJECT = 255
_MOST_GROUPS = 5_000


def attributes_of(assertion: etree._Element) -> Attributes:
    """Return the attributes by name, and by friendly name unless that is another attribute's name. Raises
    Unreadable."""
    named: dict[str, tuple[str, ...]] = {}
    friendly: dict[str, tuple[str, ...]] = {}
    for attribute in assertion.findall(f"{{{ASSERTION}}}AttributeStatement/{{{ASSERTION}}}Attribute"):
        name, nickname = attribute.get("Name", ""), attribute.get("FriendlyName", "")
        values = tuple(_value(element) for element in attribute.findall(f"{{{ASSERTION}}}AttributeValue"))
        named[name] = named.get(name, ()) + values
        if nickname:
            friendly[nickname] = friendly.get(nickname, ()) + values
    return friendly | named


def identity_of(
    issuer: str, us: ServiceProvider, subject: etree._Element, attributes: Attributes, config: SamlConfig
) -> Identity:
    """Return the identity. The e-mail address counts as verified unless the provider says otherwise, because the
    organisation's administrator has set the provider up. Raises Unauthenticated, Unreadable."""
    name_ids = subject.findall(f"{{{ASSERTION}}}NameID")
    if len(name_ids) > 1 or subject.find(f"{{{ASSERTION}}}BaseID") is not None:
        raise UnreadableSaml("the assertion names more than one subject")
    if subject.find(f"{{{ASSERTION}}}EncryptedID") is not None:
        raise Unauthenticated("the NameID is encrypted; switch encryption off at the identity provider")
    name_id = name_ids[0] if name_ids else None
    key = _subject(name_id, us, attributes, config)
    email = _first(attributes, (config.email_attribute,) if config.email_attribute else _EMAILS)
    if not email and name_id is not None and (name_id.get("Format") == _EMAIL_FORMAT or "@" in text_of(name_id)):
        email = text_of(name_id)
    if not email:
        raise Unauthenticated("the assertion has no e-mail address; let the identity provider send the attribute email")
    return Identity(
        issuer=issuer,
        subject=key,
        email=email,
        email_verified=_first(attributes, ("email_verified",)).lower() not in ("false", "0"),
        name=_first(attributes, (config.name_attribute,) if config.name_attribute else _NAMES),
        groups=_groups(attributes, config.groups_claim),
    )


def _subject(name_id: etree._Element | None, us: ServiceProvider, attributes: Attributes, config: SamlConfig) -> str:
    if config.subject_attribute:
        values = attributes.get(config.subject_attribute, ())
        if len(values) != 1 or not values[0]:
            raise Unauthenticated(f"the assertion must have one value of {config.subject_attribute!r}, the subject")
        return _check_subject_length(values[0])
    if name_id is None or not text_of(name_id):
        raise Unauthenticated("the assertion has no NameID")
    if name_id.get("Format") == _TRANSIENT:
        raise Unauthenticated(
            "the NameID is transient, so it changes with each login; let the identity provider send a persistent one, "
            "or set subject_attribute to an attribute that does not change"
        )
    if name_id.get("SPNameQualifier", us.entity_id) != us.entity_id:
        raise Unauthenticated("the NameID is for another service (SPNameQualifier)")
    return _check_subject_length(text_of(name_id))


def _check_subject_length(subject: str) -> str:
    if len(subject) > _MAX_SUBJECT:
        raise Unauthenticated(f"the subject is longer than {_MAX_SUBJECT} characters")
    return subject


def _groups(attributes: Attributes, name: str) -> frozenset[str] | None:
    """Return the groups; None if the provider sends none, which leaves them unchanged."""
    values = attributes.get(name)
    if values is None:
        return None
    if len(values) > _MOST_GROUPS:
        raise Unauthenticated(f"the assertion has more than {_MOST_GROUPS} groups; let the provider send fewer")
    return frozenset(value for value in values if value)


def _first(attributes: Attributes, names: tuple[str, ...]) -> str:
    return next((value for name in names for value in attributes.get(name, ()) if value), "")


def _value(element: etree._Element) -> str:
    """Return the text; empty if it is not text, such as a nested NameID."""
    return "" if len(element) else text_of(element)


SKEW = timedelta(seconds=60)
_SUCCESS = "urn:oasis:names:tc:SAML:2.0:status:Success"
_BEARER = "urn:oasis:names:tc:SAML:2.0:cm:bearer"
_EXCLUSIVE = "http://www.w3.org/2001/10/xml-exc-c14n#"
_TRANSFORMS = [SIGNATURE + "enveloped-signature", _EXCLUSIVE]
_METHODS = frozenset(
    {
        *(SignatureMethod.RSA_SHA256, SignatureMethod.RSA_SHA384, SignatureMethod.RSA_SHA512),
        *(SignatureMethod.ECDSA_SHA256, SignatureMethod.ECDSA_SHA384, SignatureMethod.ECDSA_SHA512),
        *(SignatureMethod.SHA256_RSA_MGF1, SignatureMethod.SHA384_RSA_MGF1, SignatureMethod.SHA512_RSA_MGF1),
    }
)
_DIGESTS = frozenset({DigestAlgorithm.SHA256, DigestAlgorithm.SHA384, DigestAlgorithm.SHA512})
# The parts of an answer that are read here; anything else could be a second message for another parser.
_PARTS = {f"{{{ASSERTION}}}Issuer": 1, f"{{{SIGNATURE}}}Signature": 1, f"{{{PROTOCOL}}}Status": 1}
_CONDITIONS = frozenset(f"{{{ASSERTION}}}{name}" for name in ("AudienceRestriction", "OneTimeUse", "ProxyRestriction"))


@dataclass(frozen=True, slots=True)
class Expected:
    """The values that the answer must match."""

    us: ServiceProvider
    provider: IdentityProvider
    request_id: str
    now: datetime


def asserted_by(content: bytes, expected: Expected, config: SamlConfig) -> Asserted:
    """Return the assertion's content. Raises Denied for the answer to another request, Unauthenticated for any other
    problem."""
    root = parsed_message(content)
    assertion = _only_assertion(root)
    _check_envelope(root, expected)
    verified = _verify_signature(root, assertion, expected)
    return _read_assertion(verified, expected, config)


def _only_assertion(root: etree._Element) -> etree._Element:
    """Return the only place where an assertion may be; anything unusual elsewhere is rejected."""
    if root.tag != f"{{{PROTOCOL}}}Response" or root.get("Version") != "2.0":
        raise UnreadableSaml("this is not a Response of SAML 2.0")
    _check_ids(root)
    assertions, parts = [], dict(_PARTS)
    for child in root:
        if child.tag == f"{{{ASSERTION}}}Assertion":
            assertions.append(child)
        elif child.tag == f"{{{ASSERTION}}}EncryptedAssertion":
            raise Unauthenticated("the assertion is encrypted; switch encryption off at the identity provider")
        elif parts.get(str(child.tag), 0):
            parts[str(child.tag)] -= 1
        else:
            raise UnreadableSaml("the answer contains an unexpected element")
    _check_status(root)
    named = [
        element for element in root.iter() if etree.QName(element).localname in ("Assertion", "EncryptedAssertion")
    ]
    if len(assertions) != 1 or named != assertions:
        raise UnreadableSaml("the answer must have exactly one assertion")
    signatures = [element for element in root.iter() if etree.QName(element).localname == "Signature"]
    if any(signature.getparent() not in (root, assertions[0]) for signature in signatures):
        raise UnreadableSaml("the answer has a signature in an unexpected place")
    return assertions[0]


def _check_ids(root: etree._Element) -> None:
    """Check that no two elements have the same id, in any spelling of the attribute."""
    ids = [
        value
        for element in root.iter()
        for name, value in element.items()
        if etree.QName(name).localname.lower() == "id"
    ]
    if len(ids) != len(set(ids)):
        raise UnreadableSaml("two elements of the answer have the same id")


def _check_status(root: etree._Element) -> None:
    codes = root.findall(f"{{{PROTOCOL}}}Status/{{{PROTOCOL}}}StatusCode")
    if len(codes) != 1:
        raise UnreadableSaml("the answer must have one status")
    if codes[0].get("Value") != _SUCCESS:
        inner = codes[0].find(f"{{{PROTOCOL}}}StatusCode")
        word = str((codes[0] if inner is None else inner).get("Value", "")).rpartition(":")[2][:64]
        raise Unauthenticated(f"the identity provider rejected the login ({word if word.isalnum() else 'no reason'})")


def _check_envelope(root: etree._Element, expected: Expected) -> None:
    """Check the envelope, which usually is not signed: this finds honest mistakes, and the assertion repeats what
    matters."""
    if root.get("InResponseTo") != expected.request_id:
        raise _another_request()
    if root.get("Destination") != expected.us.acs_url:
        raise Unauthenticated("the answer is meant for another address (Destination)")
    issuer = root.find(f"{{{ASSERTION}}}Issuer")
    if issuer is not None and text_of(issuer) != expected.provider.entity_id:
        raise _another_issuer()


def _verify_signature(root: etree._Element, assertion: etree._Element, expected: Expected) -> etree._Element:
    """Return the assertion, parsed again from the signed bytes. A signature of the whole answer must be valid if there
    is one, and does not replace that of the assertion."""
    if root.find(f"{{{SIGNATURE}}}Signature") is not None:
        _signed_bytes(root, root, "./", expected)
    verified = parsed_message(_signed_bytes(root, assertion, f"./{{{ASSERTION}}}Assertion/", expected))
    if verified.tag != assertion.tag or verified.get("ID") != assertion.get("ID"):
        raise UnreadableSaml("the signature does not cover the assertion")
    return verified


def _signed_bytes(root: etree._Element, signed: etree._Element, location: str, expected: Expected) -> bytes:
    _check_signature(signed)
    config = SignatureConfiguration(
        location=location,
        expect_references=1,
        signature_methods=_METHODS,
        digest_algorithms=_DIGESTS,
        ignore_ambiguous_key_info=True,  # only keys of the metadata are used, never those of the document
        verification_time=expected.now,
    )
    outdated = False
    for certificate in expected.provider.certificates:
        try:
            result = XMLVerifier().verify(root, x509_cert=certificate, expect_config=config, id_attribute="ID")
        except InvalidCertificate:
            outdated = True
        except (SignXMLException, ValueError, KeyError, AttributeError, TypeError, etree.LxmlError):
            continue
        else:
            assert isinstance(result, VerifyResult)  # of the one reference
            return result.signed_data
    if outdated:
        raise Unauthenticated("the certificate of the identity provider is not valid now; update its metadata")
    raise Unauthenticated("the signature of the answer does not match any key in the identity provider's metadata")


def _check_signature(signed: etree._Element) -> None:
    """Check that there is exactly one enveloped signature over the whole element, in the standard's form (Core 5.4)."""
    signatures = signed.findall(f"{{{SIGNATURE}}}Signature")
    if len(signatures) != 1:
        raise Unauthenticated("the assertion must have one signature of its own; enable that at the identity provider")
    info, *others = signatures[0]
    if info.tag != f"{{{SIGNATURE}}}SignedInfo" or any(other.tag == f"{{{SIGNATURE}}}Object" for other in others):
        raise UnreadableSaml("the signature has an unexpected form")
    references = info.findall(f"{{{SIGNATURE}}}Reference")
    if len(references) != 1 or not signed.get("ID") or references[0].get("URI") != f"#{signed.get('ID')}":
        raise UnreadableSaml("the signature must refer to the element that contains it, and to nothing else")
    transforms = references[0].findall(f"{{{SIGNATURE}}}Transforms/{{{SIGNATURE}}}Transform")
    methods = info.findall(f"{{{SIGNATURE}}}CanonicalizationMethod")
    if [transform.get("Algorithm") for transform in transforms] != _TRANSFORMS or [
        method.get("Algorithm") for method in methods
    ] != [_EXCLUSIVE]:
        raise UnreadableSaml("the signature must be enveloped, with exclusive canonicalisation without comments")
    used = {str(element.get("Algorithm")) for element in info.iter(f"{{{SIGNATURE}}}SignatureMethod")}
    used |= {str(element.get("Algorithm")) for element in info.iter(f"{{{SIGNATURE}}}DigestMethod")}
    if used - {algorithm.value for algorithm in _METHODS | _DIGESTS}:
        raise Unauthenticated(
            "the signature has an algorithm that is not accepted; let the identity provider use SHA-256"
        )


def _read_assertion(assertion: etree._Element, expected: Expected, config: SamlConfig) -> Asserted:
    """Return the content of a verified assertion."""
    if assertion.get("Version") != "2.0" or text_of(_one(assertion, "Issuer")) != expected.provider.entity_id:
        raise _another_issuer()
    issued = moment_of(assertion.get("IssueInstant"), "IssueInstant")
    if issued is None or issued > expected.now + SKEW:
        raise Unauthenticated("the assertion was issued in the future; compare the clocks of provider and gateway")
    subject = _one(assertion, "Subject")
    usable_until = _check_confirmation(subject, expected)
    _check_conditions(_one(assertion, "Conditions"), expected)
    ends = _session_end(assertion, expected.now)
    identity = identity_of(expected.provider.entity_id, expected.us, subject, attributes_of(assertion), config)
    return Asserted(identity, str(assertion.get("ID")), usable_until, ends)


def _check_confirmation(subject: etree._Element, expected: Expected) -> datetime:
    """Return until when the assertion is valid: by one bearer confirmation that matches completely (Profiles
    4.1.4.2)."""
    confirmations = subject.findall(f"{{{ASSERTION}}}SubjectConfirmation")
    if len(confirmations) != 1 or confirmations[0].get("Method") != _BEARER:
        raise Unauthenticated("the assertion must have one subject confirmation, with the method bearer")
    data = _one(confirmations[0], "SubjectConfirmationData")
    if data.get("InResponseTo") != expected.request_id:
        raise _another_request()
    if data.get("Recipient") != expected.us.acs_url:
        raise Unauthenticated("the assertion is meant for another address (Recipient)")
    until = moment_of(data.get("NotOnOrAfter"), "NotOnOrAfter")
    if until is None:
        raise Unauthenticated("the subject confirmation has no end (NotOnOrAfter)")
    _check_window(moment_of(data.get("NotBefore"), "NotBefore"), until, expected.now)
    return until + SKEW


def _check_conditions(conditions: etree._Element, expected: Expected) -> None:
    unknown = [condition for condition in conditions if condition.tag not in _CONDITIONS]
    if unknown:
        raise Unauthenticated("the assertion has a condition that is not supported, so it is not accepted")
    _check_window(
        moment_of(conditions.get("NotBefore"), "NotBefore"),
        moment_of(conditions.get("NotOnOrAfter"), "NotOnOrAfter"),
        expected.now,
    )
    restrictions = conditions.findall(f"{{{ASSERTION}}}AudienceRestriction")
    audiences: Sequence[set[str]] = [
        {text_of(element) for element in restriction.findall(f"{{{ASSERTION}}}Audience")}
        for restriction in restrictions
    ]
    if not audiences or any(expected.us.entity_id not in audience for audience in audiences):
        raise Unauthenticated("the assertion is for another service (Audience)")


def _check_window(start: datetime | None, end: datetime | None, now: datetime) -> None:
    if start is not None and now < start - SKEW:
        raise Unauthenticated("the assertion is not valid yet; compare the clocks of provider and gateway")
    if end is not None and now >= end + SKEW:
        raise Unauthenticated("the assertion has expired; log in again, or compare the clocks")


def _session_end(assertion: etree._Element, now: datetime) -> datetime | None:
    statements = assertion.findall(f"{{{ASSERTION}}}AuthnStatement")
    if not statements:
        raise Unauthenticated("the assertion contains no login (AuthnStatement)")
    ends = [moment_of(statement.get("SessionNotOnOrAfter"), "SessionNotOnOrAfter") for statement in statements]
    times = [end for end in ends if end is not None]
    if times and min(times) <= now:
        raise Unauthenticated("the session at the identity provider has ended; log in again")
    return min(times, default=None)


def _one(parent: etree._Element, name: str) -> etree._Element:
    elements = parent.findall(f"{{{ASSERTION}}}{name}")
    if len(elements) != 1:
        raise UnreadableSaml(f"there must be exactly one {name} in {etree.QName(parent).localname}")
    return elements[0]


def _another_request() -> Denied:
    return Denied("this answer is for a different request, or for none (InResponseTo); start the login at the gateway")


def _another_issuer() -> Unauthenticated:
    return Unauthenticated("the answer is from a different identity provider than the configured one (Issuer)")
