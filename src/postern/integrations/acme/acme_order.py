"""One order of a certificate at an ACME server (RFC 8555), by certbot's library. It blocks: call it in a thread."""

from __future__ import annotations

import importlib.util
import ipaddress
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from postern import __version__
from postern.domain.text import one_line
from postern.errors import Misconfigured, Unavailable

DEADLINE = 120.0  # seconds that the server has for its checks, and to issue the certificate
REQUEST_TIMEOUT = 30  # seconds
_MAX_REASON = 1_000  # characters of a server's text in a message
_NAME = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))+", re.ASCII)
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

Answering = Callable[[Mapping[str, str]], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class AcmeRequest:
    """What to order, and from whom. `authority` is a file with the CA of the server itself; empty: public ones."""

    directory: str
    names: tuple[str, ...]
    email: str = ""
    accepts_terms: bool = False
    authority: str = ""


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """PEM."""

    chain: bytes
    key: bytes


def check_acme(request: AcmeRequest) -> None:
    """Raises Misconfigured."""
    parts = urlsplit(request.directory)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise Misconfigured(
            "POSTERN_ACME_DIRECTORY: must be an https address, such as https://acme-v02.api.letsencrypt.org/directory",
            field="acme_directory",
        )
    if not request.accepts_terms:
        raise Misconfigured(
            "POSTERN_ACME_ACCEPT_TERMS is not set: read the terms of service of the ACME server, which its directory "
            "names, and set it to yes if you accept them",
            field="acme_accept_terms",
        )
    if request.email and not _EMAIL.fullmatch(request.email):
        raise Misconfigured(f"POSTERN_ACME_EMAIL: {request.email!r} is not an address", field="acme_email")
    if not request.names:
        raise Misconfigured(
            "POSTERN_ACME_DOMAINS and POSTERN_PUBLIC_HOST are empty; set one of them to the name of the certificate",
            field="acme_domains",
        )
    if wrong := [name for name in request.names if not _is_public_name(name)]:
        raise Misconfigured(
            f"POSTERN_ACME_DOMAINS: {wrong[0]!r} is not a full host name, such as gateway.example.com; an ACME server "
            "issues no certificate for it by HTTP-01",
            field="acme_domains",
        )
    if importlib.util.find_spec("acme") is None:
        raise Misconfigured(
            "POSTERN_ACME_DIRECTORY needs the library acme; run: pip install acme", field="acme_directory"
        )


def order(request: AcmeRequest, account_key: bytes, answering: Answering) -> IssuedCertificate:
    """Return a new certificate with a new key. `account_key` is PEM; the account is created if there is none.
    `answering` serves the answers to challenges. Raises Misconfigured, and Unavailable with the server's reason."""
    check_acme(request)
    import requests
    from acme import errors
    from josepy.errors import Error as JoseError

    try:
        return _order(request, account_key, answering)
    except errors.ValidationError as error:
        raise Unavailable(f"the ACME server could not check the names: {_failures(error)}") from None
    except errors.TimeoutError:
        raise Unavailable(f"the ACME server did not issue the certificate within {DEADLINE:g} s") from None
    except errors.IssuanceError as error:
        raise Unavailable(f"the ACME server did not issue the certificate: {_shorten(error.error)}") from None
    except (errors.Error, JoseError, requests.RequestException, OSError, ValueError, KeyError) as error:
        raise Unavailable(f"the ACME server {request.directory} could not be used: {_shorten(error)}") from None


def make_account_key() -> bytes:
    """Return a new key of an account, as PEM."""
    return _pem(ec.generate_private_key(ec.SECP256R1()))


def _order(request: AcmeRequest, account_key: bytes, answering: Answering) -> IssuedCertificate:
    client = _log_in(request, account_key)
    key = ec.generate_private_key(ec.SECP256R1())
    opened = client.new_order(_signing_request(request.names, key))
    challenges = [found for authorization in opened.authorizations for found in _pick(authorization)]
    prepared = [(challenge, *challenge.response_and_validation(client.net.key)) for challenge in challenges]
    answers = {challenge.chall.encode("token"): validation for challenge, _, validation in prepared}
    with answering(answers):
        for challenge, response, _ in prepared:
            client.answer_challenge(challenge, response)
        # The library compares with local time.
        deadline = datetime.now() + timedelta(seconds=DEADLINE)  # noqa: DTZ005 - the library compares local times
        finished = client.poll_and_finalize(opened, deadline)
    return IssuedCertificate(finished.fullchain_pem.encode(), _pem(key))


def _log_in(request: AcmeRequest, account_key: bytes) -> Any:
    from acme import client, errors, messages
    from josepy.jwa import ES256
    from josepy.jwk import JWKEC

    key: Any = serialization.load_pem_private_key(account_key, password=None)
    network = client.ClientNetwork(
        JWKEC(key=key),
        alg=ES256,
        verify_ssl=request.authority or True,  # type: ignore[arg-type] # passed on to requests, which takes a file
        user_agent=f"postern/{__version__}",
        timeout=REQUEST_TIMEOUT,
    )
    acme = client.ClientV2(client.ClientV2.get_directory(request.directory, network), net=network)
    wanted = messages.NewRegistration.from_data(email=request.email or None, terms_of_service_agreed=True)
    try:
        acme.new_account(wanted)
    except errors.ConflictError as error:  # there is one already
        network.account = messages.RegistrationResource(uri=error.location, body=messages.Registration())
    return acme


def _pick(authorization: Any) -> list[Any]:
    """Return the HTTP-01 challenge of an authorization; nothing if the name is authorised already. Raises
    Unavailable."""
    from acme import challenges, messages

    if authorization.body.status == messages.STATUS_VALID:
        return []
    for challenge in authorization.body.challenges:
        if isinstance(challenge.chall, challenges.HTTP01):
            return [challenge]
    raise Unavailable(
        f"the ACME server offers no HTTP-01 challenge for {authorization.body.identifier.value}, and Postern answers "
        "no other kind"
    )


def _signing_request(names: tuple[str, ...], key: ec.EllipticCurvePrivateKey) -> bytes:
    alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).add_extension(alternatives, False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _failures(error: Any) -> str:
    reasons = [
        f"{authorization.body.identifier.value}: {_shorten(challenge.error)}"
        for authorization in error.failed_authzrs
        for challenge in authorization.body.challenges
        if challenge.error is not None
    ]
    return "; ".join(reasons) or "it gave no reason"


def _shorten(reason: object) -> str:
    """Return a server's text for a log line."""
    return one_line(str(reason) or type(reason).__name__)[:_MAX_REASON]


def _is_public_name(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return bool(_NAME.fullmatch(name)) and len(name) <= 253
    return False


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
