"""A SAML identity provider on loopback: pysaml2's, which signs with the xmlsec1 program, over HTTP.

It answers whoever comes as the person it was told to, by a page with a form, as real ones do after a password.
"""

from __future__ import annotations

import html
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from lxml import etree
from tests.support.clients import need

SAML = "urn:oasis:names:tc:SAML:2.0:assertion"
SAMLP = "urn:oasis:names:tc:SAML:2.0:protocol"
DS = "http://www.w3.org/2000/09/xmldsig#"
PERSISTENT = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"
PASSWORD = "urn:oasis:names:tc:SAML:2.0:ac:classes:Password"
ANN = {"mail": ["ann@example.com"], "displayName": ["Ann"], "groups": ["dba", "dev"]}


@dataclass(frozen=True)
class KeyPair:
    key: Path
    certificate: Path

    @classmethod
    def make(cls, folder: Path, name: str, *, days: int = 30) -> KeyPair:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        named = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder(named, named, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(days=60))
            .not_valid_after(now + timedelta(days=days))
            .sign(key, hashes.SHA256())
        )
        pair = cls(folder / f"{name}.key", folder / f"{name}.pem")
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return pair


@dataclass
class SamlIdp:
    """`person` is who logs in next, `name_id` and its format what they are called, `options` go to pysaml2."""

    url: str
    folder: Path
    keys: KeyPair
    stranger: KeyPair
    person: Mapping[str, list[str]] = field(default_factory=lambda: dict(ANN))
    name_id: str | None = "ann-0001"
    name_format: str = PERSISTENT
    options: dict[str, Any] = field(default_factory=dict)
    asked: list[Any] = field(default_factory=list)
    metadata_requests: int = 0
    broken: bool = False  # answers with an error when it is asked for its metadata
    _server: Any = None
    _met: str = ""

    def meet(self, sp_metadata: str) -> None:
        """As its administrator, who enters a service's metadata. The same again changes nothing."""
        if self._met == sp_metadata:
            return
        from saml2 import BINDING_HTTP_REDIRECT
        from saml2.config import Config
        from saml2.server import Server
        from saml2.xmldsig import DIGEST_SHA256, SIG_RSA_SHA256

        endpoints = {"single_sign_on_service": [(f"{self.url}/sso", BINDING_HTTP_REDIRECT)]}
        settings = {
            "entityid": f"{self.url}/metadata",
            "service": {
                "idp": {
                    "endpoints": endpoints,
                    "name_id_format": [PERSISTENT],
                    "policy": {"default": {"lifetime": {"minutes": 5}, "fail_on_missing_requested": False}},
                }
            },
            "key_file": str(self.keys.key),
            "cert_file": str(self.keys.certificate),
            "xmlsec_binary": need("xmlsec1", "xmlsec1"),
            "signing_algorithm": SIG_RSA_SHA256,
            "digest_algorithm": DIGEST_SHA256,
            "metadata": {"inline": [sp_metadata]},
        }
        self._server = Server(config=Config().load(settings))
        self._met = sp_metadata

    def metadata(self) -> bytes:
        from saml2.metadata import entity_descriptor

        return str(entity_descriptor(self._server.config)).encode()

    def answer(self, query: str) -> tuple[str, str]:
        """The page's form: where it goes, and the answer in it, as XML."""
        from saml2 import BINDING_HTTP_REDIRECT
        from saml2.saml import NameID

        parameters = parse_qs(query)
        request = self._server.parse_authn_request(parameters["SAMLRequest"][0], BINDING_HTTP_REDIRECT)
        self.asked.append(request.message)
        given = self._server.response_args(request.message)
        given.pop("binding", None)
        name_id = NameID(format=self.name_format, text=self.name_id) if self.name_id is not None else None
        options = {"sign_assertion": True, "sign_response": False} | self.options
        response = self._server.create_authn_response(
            identity=dict(self.person),
            userid=self.name_id or "somebody",
            name_id=name_id,
            authn={"class_ref": PASSWORD, "authn_auth": self.url},
            **given,
            **options,
        )
        return given["destination"], str(response)

    def sign_anew(self, document: etree._Element, element: etree._Element, keys: KeyPair | None = None) -> str:
        """The document with the signature that stands in `element` made again: what the provider itself would sign,
        if it were told to say this."""
        keys = keys or self.keys
        for name in ("DigestValue", "SignatureValue"):
            for value in element.findall(f"{{{DS}}}Signature//{{{DS}}}{name}"):
                value.text = ""
        kind = etree.QName(element)
        signed: str = self._server.sec.crypto.sign_statement(
            etree.tostring(document).decode(), f"{kind.namespace}:{kind.localname}", str(keys.key), element.get("ID")
        )
        return signed

    @contextmanager
    def serving(self) -> Iterator[SamlIdp]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    @classmethod
    def make(cls, folder: Path) -> SamlIdp:
        need("xmlsec1", "xmlsec1")
        return cls("", folder, KeyPair.make(folder, "idp"), KeyPair.make(folder, "stranger"))


def form_of(page: str) -> dict[str, str]:
    """The fields of the provider's page, as a browser would send them."""
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"/>', page)
    return {name: html.unescape(value) for name, value in found}


def _handler(idp: SamlIdp) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            routes: dict[str, Callable[[str], tuple[str, bytes]]] = {"/metadata": self._metadata, "/sso": self._sso}
            route = routes.get(parts.path)
            if route is None:
                self.send_error(404)
                return
            if idp.broken and parts.path == "/metadata":
                idp.metadata_requests += 1
                self.send_error(500)
                return
            media_type, body = route(parts.query)
            self.send_response(200)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _metadata(self, _query: str) -> tuple[str, bytes]:
            idp.metadata_requests += 1
            return "application/samlmetadata+xml", idp.metadata()

        def _sso(self, query: str) -> tuple[str, bytes]:
            from base64 import b64encode

            target, answer = idp.answer(query)
            fields = {
                "SAMLResponse": b64encode(answer.encode()).decode(),
                "RelayState": parse_qs(query).get("RelayState", [""])[0],
            }
            inputs = "".join(
                f'<input type="hidden" name="{name}" value="{html.escape(value)}"/>' for name, value in fields.items()
            )
            return "text/html", f'<form method="post" action="{html.escape(target)}">{inputs}</form>'.encode()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    return Handler
