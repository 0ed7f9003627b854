"""Both logins: a client's at the gateway, and the gateway's at a target. They await nothing but the stream."""

from __future__ import annotations

from dataclasses import dataclass

from postern.domain.identity.credential import Verifier
from postern.domain.secret import Secret
from postern.errors import Denied, ProtocolViolation, Unauthenticated, Unavailable
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.pantry.pantry_lines import OK, TLS, error_line
from postern.protocols.verifiers import fits
from postern.protocols.wire_base import Handshake

_LONGEST = 512  # bytes of a line of a login


@dataclass(frozen=True, slots=True)
class PantryLogin:
    """What a client says of itself."""

    user: str
    password: Secret
    is_encrypted: bool


async def _line(stream: Handshake) -> bytes:
    """Read one line and nothing behind it, which is not the login's. Raises ProtocolViolation."""
    line = b""
    while not line.endswith(b"\n"):
        line += await stream.read(1)
        if len(line) > _LONGEST:
            raise ProtocolViolation(f"a line of the login is longer than {_LONGEST} bytes")
    return line


async def greet(stream: Handshake, *, require_tls: bool) -> PantryLogin:
    """Read the login of a client. Raises ProtocolViolation, or Denied where it does not encrypt and must."""
    line = await _line(stream)
    is_encrypted = line == TLS and stream.tls_offered
    if is_encrypted:
        if stream.buffered:
            raise ProtocolViolation("the client sent something before TLS began")
        stream.write(OK)
        await stream.start_tls()
        line = await _line(stream)
    elif line == TLS:
        stream.write(error_line("TLS is not configured for this connection"))
        line = await _line(stream)
    words = line[:-1].decode("utf-8", "surrogateescape").split(" ", 2)
    if len(words) != 3 or words[0] != "LOGIN":
        raise ProtocolViolation("the client did not begin with LOGIN, its user name and its password")
    if require_tls and not is_encrypted:
        raise Denied("this gateway takes encrypted connections only; send TLS first")
    return PantryLogin(words[1], Secret(words[2]), is_encrypted)


async def authenticate(stream: Handshake, login: PantryLogin, verifier: Verifier) -> None:
    """Check the password of a client. Raises Unauthenticated."""
    if not await stream.offload(lambda: fits(login.password, verifier)):
        raise Unauthenticated("the user name or password is wrong, or the credential is no longer valid")


async def log_in(stream: Handshake, user: str, password: Secret, sslmode: str) -> None:
    """Log in at a target. Raises TargetRefused, Unavailable or ProtocolViolation."""
    if set(" \n") & set(user) or "\n" in password.reveal():
        raise Unavailable("the user name or the password of the connection cannot be sent in one line")
    if sslmode != "disable":
        stream.write(TLS)
        if await _line(stream) == OK:
            await stream.start_tls()
        elif sslmode != "prefer":
            raise Unavailable(f"the target does not offer TLS, which SSLMODE {sslmode!r} asks for")
    stream.write(f"LOGIN {user} {password.reveal()}\n".encode())
    answer = await _line(stream)
    if answer.startswith(b"ERROR "):
        raise TargetRefused(answer[6:-1].decode("utf-8", "replace"), "28000")
    if answer != OK:
        raise ProtocolViolation("the target answered a login with neither OK nor ERROR")
