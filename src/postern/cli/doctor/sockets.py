"""Checks of a port: whether it can be reached, its certificate, and whether WebSockets get through."""

from __future__ import annotations

import base64
import os
import re
import socket
import ssl
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from postern.cli.doctor.finding import PATIENCE, RESTART, DoctorFinding, ok, warning, wrong
from postern.domain.identity.validity import SET_CLOCK, refused_for_its_dates
from postern.domain.secret import Secret

SOON = 14 * 24 * 3600.0  # seconds before a certificate's expiry from which there is a warning
_MOST = 64 * 1024  # bytes of an answer's head
_DEFAULT = {"https": 443, "wss": 443, "grpcs": 443, "http": 80, "ws": 80, "grpc": 80}
TRUST = "postern login URL --ca FILE"
_ELSE = "check the address, and run on the gateway's machine: postern doctor --gateway"
_OTHER_NAME = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH


@dataclass(frozen=True, slots=True)
class ProbeAddress:
    """A port to check. `authority` is the CA to trust besides the system's: PEM text, or empty. `trust` is the advice
    if the CA is the wrong one."""

    host: str
    port: int
    is_tls: bool
    authority: str = ""
    trust: str = TRUST

    @classmethod
    def of(cls, url: str, authority: str = "", trust: str = TRUST) -> ProbeAddress:
        """Raises ValueError."""
        parts = urlsplit(url)
        if not parts.hostname or parts.scheme not in _DEFAULT:
            raise ValueError(f"{url!r} is not a valid address")
        is_tls = parts.scheme in ("https", "wss", "grpcs")
        return cls(parts.hostname, parts.port or _DEFAULT[parts.scheme], is_tls, authority, trust)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def open_socket(place: ProbeAddress, protocols: list[str] | None = None) -> socket.socket:
    """Raises OSError; ssl.SSLError is one."""
    raw = socket.create_connection((place.host, place.port), timeout=PATIENCE)
    if not place.is_tls:
        return raw
    try:
        context = ssl.create_default_context()
        if place.authority:
            context.load_verify_locations(cadata=place.authority)
        if protocols:
            context.set_alpn_protocols(protocols)
        return context.wrap_socket(raw, server_hostname=place.host)
    except BaseException:
        raw.close()
        raise


def certificate(check: str, place: ProbeAddress) -> list[DoctorFinding]:
    """Check the certificate and its expiry. Return None for a port without TLS."""
    if not place.is_tls:
        return []
    try:
        with open_socket(place) as stream:
            peer_certificate = stream.getpeercert() if isinstance(stream, ssl.SSLSocket) else None
    except OSError as error:
        return report_unreachable(check, place, error)
    end = ssl.cert_time_to_seconds(str((peer_certificate or {})["notAfter"]))
    left = end - time.time()
    text = f"the certificate of {place} is valid until {time.strftime('%Y-%m-%d', time.gmtime(end))}"
    if left < SOON:
        return warning(
            check,
            text,
            "clients reject an expired certificate",
            "on the gateway's machine, run: postern doctor --gateway; it says how to renew the certificate",
        )
    return ok(check, text)


def reachable(check: str, place: ProbeAddress, protocols: list[str] | None = None) -> list[DoctorFinding]:
    try:
        open_socket(place, protocols).close()
    except OSError as error:
        return report_unreachable(check, place, error)
    return ok(check, f"{place} answers")


def check_websocket(check: str, place: ProbeAddress, token: Secret) -> tuple[list[DoctorFinding], str | None]:
    """Check that a WebSocket (RFC 6455 section 4.1) gets through to the tunnel. Return also the `Date` of the answer,
    or None."""
    key = base64.b64encode(os.urandom(16)).decode()
    request = (
        f"GET /tunnel HTTP/1.1\r\nHost: {place}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nAuthorization: Bearer {token.reveal()}\r\n\r\n"
    )
    head = b""
    try:
        with open_socket(place) as stream:
            stream.sendall(request.encode())
            while b"\r\n\r\n" not in head and len(head) < _MOST:
                got = stream.recv(4096)
                if not got:
                    break
                head += got
    except OSError as error:
        return report_unreachable(check, place, error), None
    status = head.split(b"\r\n")[0].decode("latin-1", "replace")
    if status.split(" ")[1:2] == ["101"]:
        date = re.search(rb"\r\n[Dd]ate:[ \t]*([^\r\n]{1,64})", head)
        return ok(check, f"{place} accepts WebSockets"), date[1].decode("latin-1") if date else None
    findings = wrong(
        check,
        f"{place} answers {status[:100] or 'nothing'!r} to a WebSocket",
        "tunnels of `postern connect` and of agents need it",
        "let the proxy or load balancer in between pass WebSocket upgrades to the tunnel port",
    )
    return findings, None


def report_unreachable(check: str, place: ProbeAddress, error: OSError) -> list[DoctorFinding]:
    if isinstance(error, ssl.SSLCertVerificationError):
        if dates := refused_for_its_dates(error.verify_message, datetime.now(UTC)):
            return wrong(
                check, f"{place}: {dates}", "without trust in the certificate the connection is not secure", SET_CLOCK
            )
        what = f"the certificate of {place} is not trusted: {error.verify_message}"
        return wrong(check, what, "it could be a different machine", _certificate_advice(error, place))
    problem, do = error.strerror or str(error), _ELSE
    if isinstance(error, TimeoutError):
        problem, do = "no answer in time", f"allow port {place.port} in the firewall in between; {_ELSE}"
    elif isinstance(error, ConnectionRefusedError):
        problem, do = (
            "no program listens there",
            f"the gateway listens on loopback unless POSTERN_HOST is set; {_ELSE}",
        )
    elif isinstance(error, socket.gaierror):
        problem, do = (
            f"the name cannot be resolved on this machine ({problem})",
            "check it; POSTERN_PUBLIC_HOST of the gateway sets it",
        )
    elif isinstance(error, ssl.SSLError):
        problem, do = f"the program there does not use TLS ({error.reason or problem})", f"check the port; {_ELSE}"
    return wrong(check, f"{place} cannot be reached: {problem}", "nothing can use it", do)


def _certificate_advice(error: ssl.SSLCertVerificationError, place: ProbeAddress) -> str:
    """Return advice for an OpenSSL X509_V_ERR code."""
    if error.verify_code in _OTHER_NAME:
        return f"use a name in the certificate; or restart the gateway with POSTERN_PUBLIC_HOST={place.host}; {RESTART}"
    return place.trust
