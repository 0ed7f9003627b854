"""Answers that no honest provider sends, made from its genuine ones. Each must come to nothing before any account is
looked at: `refused`, `forbidden` and `nobody` check that there is none afterwards."""

from __future__ import annotations

import asyncio
import base64
import copy
import tracemalloc
import zlib
from collections.abc import Callable
from datetime import timedelta

import pytest
from lxml import etree
from tests.support.saml_flow import Returning, SamlGateway
from tests.support.saml_idp import DS, SAML, SAMLP, KeyPair, SamlIdp

from postern.domain.identity.principal import PrincipalFilter
from postern.domain.lists import Page
from postern.integrations.identity import saml_response

pytestmark = pytest.mark.ci

BOB = "bob-0002"
Edit = Callable[[etree._Element], None]


def one(root: etree._Element, tag: str, namespace: str = SAML) -> etree._Element:
    found = next(root.iter(f"{{{namespace}}}{tag}"), None)
    assert found is not None, tag
    return found


def evil_twin(assertion: etree._Element, *, unsigned: bool = True) -> etree._Element:
    """A copy that names somebody else."""
    twin = copy.deepcopy(assertion)
    twin.set("ID", "_evil")
    one(twin, "NameID").text = BOB
    if unsigned:
        twin.remove(one(twin, "Signature", DS))
    return twin


# The eight ways to wrap a signature of Somorovsky and others, "On Breaking SAML" (USENIX Security 2012).


def xsw1(root: etree._Element) -> None:
    """A signed answer inside the signature of a copy that says something else."""
    original, signature = copy.deepcopy(root), one(root, "Signature", DS)
    original.remove(one(original, "Signature", DS))
    root.set("ID", "_evil")
    one(root, "NameID").text = BOB
    signature.append(original)


def xsw2(root: etree._Element) -> None:
    """As XSW1, with the genuine answer beside a detached signature."""
    original, signature = copy.deepcopy(root), one(root, "Signature", DS)
    original.remove(one(original, "Signature", DS))
    root.set("ID", "_evil")
    one(root, "NameID").text = BOB
    signature.addprevious(original)


def xsw3(root: etree._Element) -> None:
    """The evil assertion before the genuine one."""
    assertion = one(root, "Assertion")
    assertion.addprevious(evil_twin(assertion))


def xsw4(root: etree._Element) -> None:
    """The genuine assertion as a child of the evil one."""
    assertion = one(root, "Assertion")
    twin = evil_twin(assertion)
    root.replace(assertion, twin)
    twin.append(assertion)


def xsw5(root: etree._Element) -> None:
    """The signature in the evil assertion, the genuine one without it at the end."""
    assertion = one(root, "Assertion")
    twin = evil_twin(assertion, unsigned=False)
    assertion.remove(one(assertion, "Signature", DS))
    assertion.addprevious(twin)


def xsw6(root: etree._Element) -> None:
    """The genuine assertion inside the signature inside the evil one."""
    assertion = one(root, "Assertion")
    twin = evil_twin(assertion, unsigned=False)
    root.replace(assertion, twin)
    assertion.remove(one(assertion, "Signature", DS))
    one(twin, "Signature", DS).append(assertion)


def xsw7(root: etree._Element) -> None:
    """The evil assertion in an extension, where schemas allow anything."""
    assertion = one(root, "Assertion")
    extensions = etree.Element(f"{{{SAMLP}}}Extensions")
    extensions.append(evil_twin(assertion))
    assertion.addprevious(extensions)


def xsw8(root: etree._Element) -> None:
    """The genuine assertion in an Object of the evil one's signature."""
    assertion = one(root, "Assertion")
    twin = evil_twin(assertion, unsigned=False)
    root.replace(assertion, twin)
    assertion.remove(one(assertion, "Signature", DS))
    etree.SubElement(one(twin, "Signature", DS), f"{{{DS}}}Object").append(assertion)


@pytest.mark.parametrize("wrap", [xsw1, xsw2])
async def test_signature_wrapping_of_the_answer(gateway: SamlGateway, wrap: Edit) -> None:
    gateway.idp.options = {"sign_response": True}
    await gateway.refused(await gateway.changed(wrap), "the answer")


@pytest.mark.parametrize("wrap", [xsw3, xsw4, xsw5, xsw6, xsw7, xsw8])
async def test_signature_wrapping_of_the_assertion(gateway: SamlGateway, wrap: Edit) -> None:
    await gateway.refused(await gateway.changed(wrap), "answer")


@pytest.mark.parametrize("wrap", [xsw3, xsw4, xsw5, xsw6, xsw7, xsw8])
async def test_wrapping_gains_nothing_where_the_form_is_not_looked_at(
    gateway: SamlGateway, wrap: Edit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second line of defence alone: only what was signed is read, so it is Ann or nobody, and never Bob."""
    monkeypatch.setattr(saml_response, "_only_assertion", lambda root: root.find(f"{{{SAML}}}Assertion"))
    monkeypatch.setattr(saml_response, "_check_signature", lambda signed: None)
    await gateway.back(await gateway.changed(wrap))
    everybody = await gateway.world.stores.principals.find(gateway.world.org_id, PrincipalFilter(), Page())
    assert [account.principal.subject for account in everybody.items] in ([], ["ann-0001"])


async def test_two_assertions_with_genuine_signatures(gateway: SamlGateway) -> None:
    other = (await gateway.leave()).document

    def both(root: etree._Element) -> None:
        one(other, "Signature", DS).set("Id", "_another")
        root.append(one(other, "Assertion"))

    await gateway.refused(await gateway.changed(both), "exactly one assertion")


async def test_duplicated_ids(gateway: SamlGateway) -> None:
    def twice(root: etree._Element) -> None:
        root.set("ID", str(one(root, "Assertion").get("ID")))

    await gateway.refused(await gateway.changed(twice), "same id")


async def test_stripped_signature(gateway: SamlGateway) -> None:
    def strip(root: etree._Element) -> None:
        assertion = one(root, "Assertion")
        assertion.remove(one(assertion, "Signature", DS))

    await gateway.refused(await gateway.changed(strip), "one signature of its own")


async def test_only_the_answer_is_signed(gateway: SamlGateway) -> None:
    gateway.idp.options = {"sign_assertion": False, "sign_response": True}
    await gateway.refused(await gateway.leave(), "one signature of its own")


async def test_a_wrong_signature_of_the_answer_beside_a_right_one_of_the_assertion(gateway: SamlGateway) -> None:
    gateway.idp.options = {"sign_response": True}

    def spoil(root: etree._Element) -> None:
        root.set("IssueInstant", "2026-01-01T00:00:00Z")

    await gateway.refused(await gateway.changed(spoil), "does not match any key")


async def test_another_name_under_a_genuine_signature(gateway: SamlGateway) -> None:
    def rename(root: etree._Element) -> None:
        one(root, "NameID").text = BOB

    await gateway.refused(await gateway.changed(rename), "does not match any key")


async def test_more_groups_under_a_genuine_signature(gateway: SamlGateway) -> None:
    def promote(root: etree._Element) -> None:
        value = next(value for value in root.iter(f"{{{SAML}}}AttributeValue") if value.text == "dev")
        value.text = "admin"

    await gateway.refused(await gateway.changed(promote), "does not match any key")


async def test_signed_by_another_key(gateway: SamlGateway) -> None:
    returning = await gateway.leave()
    document = returning.document
    forged = gateway.idp.sign_anew(document, one(document, "Assertion"), gateway.idp.stranger)
    await gateway.refused(returning.carrying(forged), "does not match any key")


async def test_key_info_with_the_key_of_a_stranger(gateway: SamlGateway) -> None:
    """The certificate in the document is right for the signature, and not in the metadata."""
    returning = await gateway.leave()
    document = returning.document
    pem = gateway.idp.stranger.certificate.read_text()
    one(document, "X509Certificate", DS).text = "".join(pem.splitlines()[1:-1])
    forged = gateway.idp.sign_anew(document, one(document, "Assertion"), gateway.idp.stranger)
    await gateway.refused(returning.carrying(forged), "does not match any key")


async def test_a_public_key_used_as_an_hmac_secret(gateway: SamlGateway) -> None:
    def confuse(root: etree._Element) -> None:
        one(root, "SignatureMethod", DS).set("Algorithm", "http://www.w3.org/2001/04/xmldsig-more#hmac-sha256")

    await gateway.refused(await gateway.changed(confuse), "algorithm")


@pytest.mark.parametrize(
    ("tag", "algorithm"),
    [("SignatureMethod", DS + "rsa-sha1"), ("DigestMethod", DS + "sha1")],
)
async def test_sha_1(gateway: SamlGateway, tag: str, algorithm: str) -> None:
    """Genuinely signed that way."""
    returning = await gateway.leave()
    document = returning.document
    one(document, tag, DS).set("Algorithm", algorithm)
    signed = gateway.idp.sign_anew(document, one(document, "Assertion"))
    await gateway.refused(returning.carrying(signed), "SHA-256")


@pytest.mark.parametrize("uri", ["", "#_elsewhere", "http://127.0.0.1:9/", "#xpointer(/)"])
async def test_a_signature_that_refers_to_something_else(gateway: SamlGateway, uri: str) -> None:
    def refer(root: etree._Element) -> None:
        one(root, "Reference", DS).set("URI", uri)

    await gateway.refused(await gateway.changed(refer), "refer to the element that contains it")


async def test_a_transform_that_leaves_things_out_of_what_is_signed(gateway: SamlGateway) -> None:
    def leave_out(root: etree._Element) -> None:
        transforms = one(root, "Transforms", DS)
        etree.SubElement(transforms, f"{{{DS}}}Transform", Algorithm="http://www.w3.org/TR/1999/REC-xslt-19991116")

    await gateway.refused(await gateway.changed(leave_out), "exclusive canonicalisation")


async def test_comment_injection_in_the_name_id(gateway: SamlGateway) -> None:
    """Canonicalisation drops comments, so the signature stays right (CVE-2017-11427)."""
    gateway.idp.name_id = "admin@example.com.evil.example"
    returning = await gateway.leave()
    content = base64.b64decode(returning.form["SAMLResponse"])
    split = content.replace(b"admin@example.com.evil", b"admin@example.com<!---->.evil")
    assert split != content
    await gateway.refused(returning.carrying(split), "comment")


@pytest.mark.parametrize(
    "prolog",
    [
        '<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;">]>',
        '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE r SYSTEM "http://127.0.0.1:9/evil.dtd">',
        '<!DOCTYPE r [<!ENTITY % p SYSTEM "http://127.0.0.1:9/p"> %p;]>',
    ],
    ids=["billion laughs", "external entity", "external DTD", "parameter entity"],
)
async def test_document_types(gateway: SamlGateway, prolog: str) -> None:
    returning = await gateway.leave()
    content = etree.tostring(returning.document).decode()
    await gateway.refused(returning.carrying(prolog + content), "document type")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-7"])
async def test_a_document_type_hidden_by_an_encoding(gateway: SamlGateway, encoding: str) -> None:
    returning = await gateway.leave()
    content = '<!DOCTYPE r [<!ENTITY a "a">]>' + etree.tostring(returning.document).decode()
    declared = f'<?xml version="1.0" encoding="{encoding}"?>' + content
    await gateway.refused(returning.carrying(declared.encode(encoding)), "")


async def test_a_processing_instruction_and_cdata(gateway: SamlGateway) -> None:
    for inserted in (b"ann<?x?>-0001", b"<![CDATA[ann-0001]]>"):
        returning = await gateway.leave()
        content = base64.b64decode(returning.form["SAMLResponse"]).replace(b"ann-0001", inserted)
        await gateway.refused(returning.carrying(content), "not accepted")


async def test_a_deflate_bomb(gateway: SamlGateway) -> None:
    """CVE-2023-28119: an answer is never inflated, so that 500 kB stay 500 kB."""
    returning = await gateway.leave()
    bomb = zlib.compress(b"<" * 200_000_000)[2:-4]
    tracemalloc.start()
    await gateway.refused(returning.carrying(bomb), "not XML")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000


async def test_oversized_answers(gateway: SamlGateway) -> None:
    for size, status in ((550_000, 303), (3_500_000, 413)):
        returning = await gateway.leave()
        padded = base64.b64decode(returning.form["SAMLResponse"]) + b" " * size
        answer = await gateway.back(returning.carrying(padded))
        assert answer.status_code == status
        await gateway.nobody(answer)
    returning = await gateway.leave()
    padded = base64.b64decode(returning.form["SAMLResponse"]) + b" " * 550_000
    await gateway.refused(returning.carrying(padded), "larger than 524288 bytes")


async def test_an_answer_with_too_many_elements(gateway: SamlGateway) -> None:
    await gateway.refused((await gateway.leave()).carrying("<a>" + "<b/>" * 30_000 + "</a>"), "more than 20000")


@pytest.mark.parametrize("document", ["", "not XML", "<a/>", "<a>" * 5_000])
async def test_things_that_are_no_answer(gateway: SamlGateway, document: str) -> None:
    await gateway.refused((await gateway.leave()).carrying(document), "")


async def test_an_encrypted_assertion_is_said_to_be_impossible(gateway: SamlGateway) -> None:
    def encrypt(root: etree._Element) -> None:
        root.replace(one(root, "Assertion"), etree.Element(f"{{{SAML}}}EncryptedAssertion"))

    await gateway.refused(await gateway.changed(encrypt), "encrypted")


# What the provider itself signs, and is not meant for us, for now, or for this request.


async def signed_anew(gateway: SamlGateway, edit: Edit) -> Returning:
    returning = await gateway.leave()
    document = returning.document
    edit(document)
    return returning.carrying(gateway.idp.sign_anew(document, one(document, "Assertion")))


def setting(tag: str, name: str, value: str | None) -> Edit:
    def edit(root: etree._Element) -> None:
        element = one(root, tag)
        if value is None:
            del element.attrib[name]
        else:
            element.set(name, value)

    return edit


def saying(tag: str, text: str) -> Edit:
    def edit(root: etree._Element) -> None:
        one(one(root, "Assertion"), tag).text = text

    return edit


def without(tag: str) -> Edit:
    def edit(root: etree._Element) -> None:
        element = one(root, tag)
        parent = element.getparent()
        assert parent is not None
        parent.remove(element)

    return edit


def with_unknown_condition(root: etree._Element) -> None:
    etree.SubElement(one(root, "Conditions"), "{urn:example}OnlyOnMondays")


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (saying("Audience", "https://other.example/metadata"), "Audience"),
        (without("AudienceRestriction"), "Audience"),
        (setting("SubjectConfirmationData", "Recipient", "https://other.example/acs"), "Recipient"),
        (setting("SubjectConfirmationData", "Recipient", "http://localhost:7480/api/saml/callback/x"), "Recipient"),
        (setting("SubjectConfirmationData", "Recipient", None), "Recipient"),
        (setting("SubjectConfirmationData", "NotOnOrAfter", None), "no end"),
        (setting("SubjectConfirmationData", "NotOnOrAfter", "2020-01-01T00:00:00Z"), "expired"),
        (setting("SubjectConfirmationData", "NotBefore", "2099-01-01T00:00:00Z"), "not valid yet"),
        (setting("Conditions", "NotOnOrAfter", "2020-01-01T00:00:00Z"), "expired"),
        (setting("Conditions", "NotBefore", "2099-01-01T00:00:00Z"), "not valid yet"),
        (setting("Conditions", "NotOnOrAfter", "soon"), "not a valid timestamp"),
        (setting("Assertion", "IssueInstant", "2099-01-01T00:00:00Z"), "in the future"),
        (setting("AuthnStatement", "SessionNotOnOrAfter", "2020-01-01T00:00:00Z"), "session"),
        (setting("SubjectConfirmation", "Method", "urn:oasis:names:tc:SAML:2.0:cm:sender-vouches"), "bearer"),
        (setting("NameID", "Format", "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"), "transient"),
        (setting("NameID", "SPNameQualifier", "https://other.example"), "SPNameQualifier"),
        (saying("Issuer", "https://evil.example/metadata"), "Issuer"),
        (saying("NameID", ""), "no NameID"),
        (saying("NameID", "x" * 300), "longer"),
        (without("NameID"), "NameID"),
        (without("Conditions"), "Conditions"),
        (without("AuthnStatement"), "AuthnStatement"),
        (without("SubjectConfirmation"), "subject confirmation"),
        (with_unknown_condition, "condition"),
    ],
)
async def test_signed_by_the_provider_and_not_for_us(gateway: SamlGateway, edit: Edit, reason: str) -> None:
    await gateway.refused(await signed_anew(gateway, edit), reason)


async def test_sixty_seconds_between_two_clocks_are_forgiven_and_no_more(gateway: SamlGateway) -> None:
    clock = gateway.world.clock
    behind = await gateway.leave()
    start = clock.now
    clock.now = start - timedelta(seconds=70)
    await gateway.refused(behind, "clocks")
    clock.now = start
    ahead = await gateway.leave()
    clock.now = start - timedelta(seconds=50)
    assert "error" not in (await gateway.back(ahead)).headers["Location"]


async def test_destination_of_another_service(gateway: SamlGateway) -> None:
    for destination in ("https://other.example/acs", "http://localhost:7480/api/saml/callback.evil.example"):

        def elsewhere(root: etree._Element, there: str = destination) -> None:
            root.set("Destination", there)

        await gateway.refused(await gateway.changed(elsewhere), "Destination")


async def test_idp_initiated_login(gateway: SamlGateway) -> None:
    """A genuine assertion that answers no request."""
    returning = await gateway.leave()
    for state in ("", "https://gateway.example/", "x" * 43):
        unasked = Returning(returning.form | {"RelayState": state}, returning.cookies)
        await gateway.forbidden(unasked, "")


@pytest.mark.parametrize("value", [None, "_0123"])
async def test_in_response_to_another_request(gateway: SamlGateway, value: str | None) -> None:
    def answer_to(root: etree._Element) -> None:
        for element in (root, one(root, "SubjectConfirmationData")):
            element.attrib.pop("InResponseTo")
            if value is not None:
                element.set("InResponseTo", value)

    await gateway.forbidden(await signed_anew(gateway, answer_to), "InResponseTo")


async def test_in_response_to_changed_where_it_is_not_signed(gateway: SamlGateway) -> None:
    """An answer to the attacker's own request, made to look like one to the victim's."""
    theirs, mine = await gateway.leave(), await gateway.leave()
    stolen = theirs.document
    stolen.set("InResponseTo", str(mine.document.get("InResponseTo")))
    await gateway.forbidden(mine.carrying(stolen), "InResponseTo")


async def test_replayed_answer(gateway: SamlGateway) -> None:
    returning = await gateway.leave()
    first = await gateway.back(returning)
    assert first.cookies["postern"]
    again = await gateway.back(returning)
    assert again.status_code == 403
    assert "postern" not in again.cookies


async def test_one_answer_in_two_requests_at_once(gateway: SamlGateway) -> None:
    returning = await gateway.leave()
    answers = await asyncio.gather(*(gateway.back(returning) for _ in range(5)))
    assert sorted(answer.status_code for answer in answers) == [303, 403, 403, 403, 403]


async def test_replayed_assertion_id(gateway: SamlGateway) -> None:
    """A provider that gives one assertion to two requests: the id is good once."""
    first = await gateway.leave()
    used = str(one(first.document, "Assertion").get("ID"))
    assert (await gateway.back(first)).cookies["postern"]

    def again(root: etree._Element) -> None:
        one(root, "Assertion").set("ID", used)
        one(root, "Reference", DS).set("URI", f"#{used}")

    answer = await gateway.back(await signed_anew(gateway, again))
    assert "already+used" in answer.headers["Location"]
    assert "postern" not in answer.cookies


async def test_an_expired_request(gateway: SamlGateway) -> None:
    returning = await gateway.leave()
    gateway.world.clock.forward(minutes=11)
    await gateway.forbidden(returning, "expired")


async def test_an_answer_in_another_browser(gateway: SamlGateway) -> None:
    """Login CSRF: the victim's browser is made to send the attacker's own genuine answer."""
    returning = await gateway.leave()
    await gateway.forbidden(Returning(returning.form, {}), "different browser")


@pytest.mark.parametrize(
    "redirect",
    ["https://evil.example/", "//evil.example", "http://localhost:7480@evil.example/", "javascript:alert(1)"],
)
async def test_open_redirect(gateway: SamlGateway, redirect: str) -> None:
    assert (await gateway.begin(redirect=redirect)).status_code == 422


async def test_names_from_the_document_are_not_repeated(gateway: SamlGateway) -> None:
    """Neither in the address where the browser ends, nor in the log."""

    def shout(root: etree._Element) -> None:
        etree.SubElement(root, "x" * 100_000)

    answer = await gateway.back(await gateway.changed(shout))
    assert answer.status_code == 303
    assert len(answer.headers["Location"]) < 1_000
    await gateway.nobody(answer)


async def test_script_in_the_relay_state(gateway: SamlGateway) -> None:
    returning = await gateway.leave()
    scripted = Returning(returning.form | {"RelayState": "<script>alert(1)</script>"}, returning.cookies)
    answer = await gateway.back(scripted)
    assert (answer.status_code, answer.headers["Content-Type"]) == (403, "application/json")
    assert "script" not in answer.text


async def test_a_form_that_is_none(gateway: SamlGateway) -> None:
    for headers, body in (
        ({"Content-Type": "multipart/form-data; boundary=x"}, b"--x--"),
        ({"Content-Type": "application/json"}, b"{}"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, b"SAMLResponse=a&SAMLResponse=b"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, b"a=1&" * 1_000),
        ({"Content-Type": "application/x-www-form-urlencoded"}, b"\xff\xfe"),
    ):
        answer = await gateway.client.post("/saml/callback", content=body, headers=headers)
        assert answer.status_code == 400, answer.text


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "https://169.254.169.254/latest/meta-data",
        "https://[fe80::1]/metadata",
        "https://[::ffff:169.254.169.254]/metadata",
        "http://idp.example/metadata",
        "file:///etc/passwd",
    ],
)
async def test_server_side_request_forgery_by_metadata_url(gateway: SamlGateway, url: str) -> None:
    await gateway.configure(idp_metadata_url=url)
    assert (await gateway.begin()).status_code in (422, 503)


async def test_metadata_with_a_document_type(gateway: SamlGateway, idp: SamlIdp) -> None:
    await gateway.configure(idp_metadata='<!DOCTYPE r [<!ENTITY a "a">]>' + idp.metadata().decode())
    answer = await gateway.begin()
    assert answer.status_code == 422
    assert "document type" in answer.json()["message"]


async def test_metadata_that_sends_people_to_a_plain_page(gateway: SamlGateway, idp: SamlIdp) -> None:
    text = idp.metadata().decode().replace(f"{idp.url}/sso", "http://idp.example/sso")
    await gateway.configure(idp_metadata=text)
    assert (await gateway.begin()).status_code == 422


async def test_a_certificate_that_has_run_out(gateway: SamlGateway) -> None:
    returning = await gateway.leave()
    outdated = KeyPair.make(gateway.idp.folder, "is not valid now", days=-1)
    document = returning.document
    signed = gateway.idp.sign_anew(document, one(document, "Assertion"), outdated)
    theirs, ours = ("".join(pair.certificate.read_text().splitlines()[1:-1]) for pair in (outdated, gateway.idp.keys))
    metadata = etree.fromstring(gateway.idp.metadata())
    for certificate in metadata.iter(f"{{{DS}}}X509Certificate"):
        assert "".join((certificate.text or "").split()) == ours
        certificate.text = theirs
    await gateway.configure(idp_metadata=etree.tostring(metadata).decode())
    await gateway.refused(returning.carrying(signed), "is not valid now")
