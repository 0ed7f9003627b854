"""From a verified assertion to what Postern knows of somebody."""

from __future__ import annotations

from collections.abc import Mapping

from lxml import etree

from postern.domain.identity.auth_config import SamlConfig
from postern.domain.identity.identity import Identity
from postern.domain.identity.saml import ServiceProvider
from postern.errors import Unauthenticated
from postern.integrations.identity.saml_xml import ASSERTION, UnreadableSaml, text_of

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
    """By name, and by friendly name where no other attribute has that as its name. Raises Unreadable."""
    named: dict[str, tuple[str, ...]] = {}
    friendly: dict[str, tuple[str, ...]] = {}
    for attribute in assertion.findall(f"{{{ASSERTION}}}AttributeStatement/{{{ASSERTION}}}Attribute"):
        name, nickname = attribute.get("Name", ""), attribute.get("FriendlyName", "")
        values = tuple(_value(one) for one in attribute.findall(f"{{{ASSERTION}}}AttributeValue"))
        named[name] = named.get(name, ()) + values
        if nickname:
            friendly[nickname] = friendly.get(nickname, ()) + values
    return friendly | named


def identity_of(
    issuer: str, us: ServiceProvider, subject: etree._Element, attributes: Attributes, config: SamlConfig
) -> Identity:
    """The e-mail address counts as verified unless the provider says otherwise: it is the organisation's own, set up
    by its administrator. Raises Unauthenticated, Unreadable."""
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
        return _bounded(values[0])
    if name_id is None or not text_of(name_id):
        raise Unauthenticated("the assertion has no NameID")
    if name_id.get("Format") == _TRANSIENT:
        raise Unauthenticated(
            "the NameID is transient, so it would be another at the next login; let the identity provider send a "
            "persistent one, or name an attribute that stays in subject_attribute"
        )
    if name_id.get("SPNameQualifier", us.entity_id) != us.entity_id:
        raise Unauthenticated("the NameID is one for another service (SPNameQualifier)")
    return _bounded(text_of(name_id))


def _bounded(subject: str) -> str:
    if len(subject) > _MAX_SUBJECT:
        raise Unauthenticated(f"the subject is longer than {_MAX_SUBJECT} characters")
    return subject


def _groups(attributes: Attributes, name: str) -> frozenset[str] | None:
    """None when the provider says nothing of groups: that leaves them as they are."""
    values = attributes.get(name)
    if values is None:
        return None
    if len(values) > _MOST_GROUPS:
        raise Unauthenticated(f"the assertion has more than {_MOST_GROUPS} groups; let the provider send fewer")
    return frozenset(one for one in values if one)


def _first(attributes: Attributes, names: tuple[str, ...]) -> str:
    return next((value for name in names for value in attributes.get(name, ()) if value), "")


def _value(element: etree._Element) -> str:
    """Empty for what is no text, such as a nested NameID."""
    return "" if len(element) else text_of(element)
