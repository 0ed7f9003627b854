"""Parsing of untrusted XML, so that every parser sees the same content.

Documents with features that honest ones do not need are rejected before parsing: a document type (entity bombs,
external entities), and in messages also comments, CDATA and processing instructions. Each of these has been used to
make a signed text look shorter to one parser than to another (CVE-2017-11427 and similar).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from lxml import etree

from postern.errors import Unauthenticated

ASSERTION = "urn:oasis:names:tc:SAML:2.0:assertion"
PROTOCOL = "urn:oasis:names:tc:SAML:2.0:protocol"
METADATA = "urn:oasis:names:tc:SAML:2.0:metadata"
SIGNATURE = "http://www.w3.org/2000/09/xmldsig#"

_DECLARATION = re.compile(r"\s*<\?xml\s[^<>]*\?>")
_ENCODING = re.compile(r"""encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
_MOST_ELEMENTS = 20_000


class UnreadableSaml(Unauthenticated):
    """The document is not what an honest provider sends."""


def parsed_message(content: bytes) -> etree._Element:
    """Return the root of a protocol message. Raises Unreadable."""
    text = _text(content)
    if "<!" in text or "<?" in text:
        raise UnreadableSaml(
            "the answer has a document type, comment, CDATA or processing instruction, which is not accepted"
        )
    return _parse_xml(text)


def parsed_metadata(content: bytes) -> etree._Element:
    """Return the root of a metadata document, in which comments are usual. Raises Unreadable."""
    text = _text(content)
    if re.search(r"<!(?!--)", text):
        raise UnreadableSaml("the metadata has a document type or CDATA, which is not accepted")
    return _parse_xml(text)


def text_of(element: etree._Element) -> str:
    """Return the element's text, stripped. Raises Unreadable when it has child elements."""
    if len(element):
        raise UnreadableSaml(f"{etree.QName(element).localname} contains elements where only text is allowed")
    return (element.text or "").strip()


def moment_of(text: str | None, what: str) -> datetime | None:
    """Parse an xs:dateTime, which is UTC in SAML (Core 1.3.3). Raises Unreadable."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UnreadableSaml(f"{what} is not a valid timestamp") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _text(content: bytes) -> str:
    """Return the text without the XML declaration, so that the checks and the parser use the same encoding."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableSaml("the document is not XML in UTF-8") from None
    declaration = _DECLARATION.match(text)
    if declaration is None:
        return text
    named = _ENCODING.search(declaration.group())
    if named and named.group(1).lower() not in ("utf-8", "us-ascii", "ascii"):
        raise UnreadableSaml("the document is not XML in UTF-8")
    return text[declaration.end() :]


def _parse_xml(text: str) -> etree._Element:
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, dtd_validation=False, huge_tree=False, recover=False
    )
    try:
        root = etree.fromstring(text.encode(), parser)
    except (etree.XMLSyntaxError, ValueError):
        raise UnreadableSaml("the document is not well-formed XML") from None
    if any(element.tag is etree.Entity for element in root.iter()):
        raise UnreadableSaml("the document has a document type or entities, which are not accepted")
    if sum(1 for _ in root.iter()) > _MOST_ELEMENTS:
        raise UnreadableSaml(f"the document has more than {_MOST_ELEMENTS} elements")
    return root
