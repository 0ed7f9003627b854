"""Both logins: a client's at the gateway, and the gateway's at the target.

    client                                  gateway                                target
      ├─ (TLS, from the first byte) ─────────▶ ├─ (TLS, if the connection says so) ─▶ │
      ├─ CONNECT, with the service name ─────▶ ├─ CONNECT ──────────────────────────▶ │
      │ ◀── ACCEPT or REFUSE ──────────────────│ ◀── ACCEPT, REFUSE, REDIRECT, RESEND │
      │                                        ├─ (native encryption, if both do it)─ │
      ├─ PROTOCOL ───────────────────────────▶ ├─ PROTOCOL ─────────────────────────▶ │
      │ ◀── what the gateway offers ───────────│ ◀── what the target can do ──────────│
      ├─ DATA_TYPES ─────────────────────────▶ ├─ DATA_TYPES of the client, lowered ▶ │
      │ ◀── the same ──────────────────────────│ ◀──────────────────────────────────  │
      ├─ user ───────────────────────────────▶ ├─ user of the account ──────────────▶ │
      │ ◀── challenge ─────────────────────────│ ◀── challenge ───────────────────────│
      ├─ proof, password ────────────────────▶ ├─ proof, password ──────────────────▶ │
      │     (admission, dial, target's login)  │                                      │
      │ ◀── values of the session, and a proof │ ◀── values of the session, and a proof

Clients are offered TLS (TCPS) and no native encryption. Targets get either one. Every length is checked before its
bytes are awaited. The client's values and its proof are answered after the login at the target, as the values come from
there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from postern.domain.identity.credential import Verifier
from postern.domain.secret import Secret
from postern.errors import Denied, PosternError, ProtocolViolation, Unauthenticated, Unavailable
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.oracledb.login import oracle_auth_messages as auth
from postern.protocols.oracledb.login import tns_connects as connects
from postern.protocols.oracledb.login.oracle_auth import OracleClientExchange, OracleServerExchange, OracleVerifier
from postern.protocols.oracledb.native_encryption.native_algorithms import NativeMode
from postern.protocols.oracledb.native_encryption.native_cipher import NativeCipher
from postern.protocols.oracledb.native_encryption.native_failures import failure_text
from postern.protocols.oracledb.native_encryption.native_messages import read_message
from postern.protocols.oracledb.native_encryption.native_negotiation import NativeNegotiation, absent
from postern.protocols.oracledb.wire import tns_descriptors as descriptors
from postern.protocols.oracledb.wire import tns_packets as tns
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire import ttc_negotiation as n
from postern.protocols.oracledb.wire.oracle_output import encode_error, refusal_text
from postern.protocols.oracledb.wire.tns_descriptors import ConnectNames, DescriptorNode
from postern.protocols.oracledb.wire.ttc_buffers import TtcIncomplete, TtcReader
from postern.protocols.stream_cipher import StreamCipher
from postern.protocols.verifiers import fits
from postern.protocols.wire_base import Handshake

T = TypeVar("T")

# Maximum bytes of a packet, and of a message, during login.
MAX_PACKET: Final = 64 * 1024
MAX_MESSAGE: Final = 128 * 1024
# Maximum size of packets in the session: what clients choose without being asked for more.
SDU: Final = 8_192
_MAX_RESENDS: Final = 3
_TLS_HANDSHAKE: Final = 0x16
_TLS_AGAIN: Final = 0x08  # flag of a RESEND

INCOMPATIBLE: Final = 12_618
# The password of clients of a local port, which have no credential. It is no secret.
TUNNEL_PASSWORD: Final = "postern"  # noqa: S105
_CLIENT_NAME: Final = b"postern"
_REFUSED: Final = "the user name or password is wrong, or the credential is no longer valid"

# What a client says about itself, and the target is told.
_ATTRIBUTES: Final = frozenset(
    {
        *("AUTH_TERMINAL", "AUTH_PROGRAM_NM", "AUTH_MACHINE", "AUTH_PID", "AUTH_SID"),
        *("SESSION_CLIENT_DRIVER_NAME", "SESSION_CLIENT_VERSION", "SESSION_CLIENT_LOBATTR", "SESSION_CLIENT_LIB_TYPE"),
    }
)
_PROGRAM: Final = ("AUTH_TERMINAL", "AUTH_PROGRAM_NM", "AUTH_MACHINE", "AUTH_PID", "AUTH_SID")
# A statement that comes with a login. It is not judged, so settings other than these are refused.
_ALTER_SESSION: Final = re.compile(
    r"\s*ALTER\s+SESSION\s+SET(?:\s+(?:TIME_ZONE|NLS_LANGUAGE|NLS_TERRITORY)\s*=\s*(?:'[^']{0,64}'|LOCAL|DBTIMEZONE))+\s*",
    re.IGNORECASE,
)
# Values of a target's answer that are about its own authentication.
_PRIVATE: Final = frozenset(
    {
        *("AUTH_SVR_RESPONSE", "AUTH_SESSKEY", "AUTH_VFR_DATA", "AUTH_PASSWORD"),
        *("AUTH_PBKDF2_CSK_SALT", "AUTH_PBKDF2_VGEN_COUNT", "AUTH_PBKDF2_SDER_COUNT", "AUTH_PBKDF2_SPEEDY_KEY"),
    }
)


class OracleHandshake(Handshake, Protocol):
    """A stream to a target, which can be encrypted by a cipher of the protocol's own."""

    def encrypt_stream(self, cipher: StreamCipher) -> None: ...


class _Line:
    """Packets and messages of a login on one stream. `large`: lengths have four bytes."""

    def __init__(self, stream: Handshake, peer: str) -> None:
        self.stream = stream
        self.large = False
        self.sdu = SDU
        self._peer = peer

    async def packet(self) -> tns.TnsPacket:
        head = await self.stream.read(tns.HEAD)
        most = MAX_PACKET if self.large else tns.MAX_EARLY
        size = int(tns.read_size(head, 0, self.large, most, self._peer))
        return tns.cut_packet(head + await self.stream.read(size - tns.HEAD), 0, size, self._peer)

    async def data(self, *, is_last: bool = False) -> bytes:
        """Return the body of the next packet, which must be DATA. `is_last`: it can close the connection."""
        while True:
            packet = await self.packet()
            if packet.type == tns.DATA:
                forbidden = tns.BEGIN_PIPELINE if is_last else tns.END_OF_FILE | tns.BEGIN_PIPELINE
                if packet.data_flags & forbidden:
                    raise ProtocolViolation(f"the {self._peer} ended its login ({packet.data_flags:#x})")
                return packet.body
            if packet.type == tns.FAILURE:
                raise Unavailable(failure_text(packet.body))
            if packet.type != tns.CONTROL:
                raise ProtocolViolation(f"the {self._peer} sent a packet of type {packet.type} during login")

    async def message(self, read: Callable[[TtcReader], T]) -> T:
        """Return what `read` makes of the next message, which may span packets and ends with one."""
        data = await self.data()
        while True:
            reader = TtcReader(data)
            try:
                value = read(reader)
            except TtcIncomplete:
                data += await self.data()
                if len(data) > MAX_MESSAGE:
                    raise ProtocolViolation(f"the {self._peer} sent a message that is too long during login") from None
                continue
            if reader.pos != reader.end:
                raise ProtocolViolation(f"the {self._peer} sent {reader.end - reader.pos} bytes after a message")
            return value

    def send(self, data: bytes) -> None:
        self.stream.write(tns.data_packets(data, self.sdu))


def _expecting(kind: int, read: Callable[[TtcReader], T]) -> Callable[[TtcReader], T]:
    """Return a reader of a message that begins with that type."""

    def whole(reader: TtcReader) -> T:
        actual = reader.ub1()
        if actual != kind:
            raise ProtocolViolation(f"a message of type {actual} came in place of {kind} during login")
        return read(reader)

    return whole


@dataclass(frozen=True, slots=True)
class OracleStartup:
    """A client's start-up request. `types` are what it negotiated, `sdu` is the size of its packets."""

    user: str
    names: ConnectNames
    types: n.ClientTypes
    sdu: int
    encrypted: bool

    @property
    def layout(self) -> n.TtcLayout:
        return self.types.layout


@dataclass(frozen=True, slots=True)
class OracleClientSettings:
    """What a client says about itself with its password. `alter_session` sets its time zone and language."""

    attributes: Mapping[str, str]
    alter_session: str


class OracleClientLogin:
    """One client's login: `greet`, then `authenticate` or `let_in`, then `welcome`; `turn_away` at any time."""

    def __init__(self, stream: Handshake) -> None:
        self._line = _Line(stream, "client")
        self._accepted = False
        self._encrypted = False
        self._attributes: dict[str, str] = {}
        self._exchange: OracleServerExchange | None = None
        self._layout = n.TtcLayout()
        self._sequence = 0  # of the client's last call

    async def connect_names(self) -> tuple[connects.TnsConnect, ConnectNames]:
        """Read the client's CONNECT."""
        line = self._line
        if (await line.stream.peek(1))[0] == _TLS_HANDSHAKE:
            if not line.stream.tls_offered:
                raise ProtocolViolation("the client uses TLS, which this listener does not offer")
            await line.stream.start_tls()
            self._encrypted = True
        packet = await line.packet()
        if packet.type != tns.CONNECT:
            raise ProtocolViolation("the client does not begin with CONNECT: it probably speaks another protocol")
        asked = connects.parse_connect(packet.body)
        descriptor = asked.descriptor
        if descriptor is None:
            descriptor = await line.data()
            if len(descriptor) != asked.length:
                raise ProtocolViolation("the client sent a descriptor of another length than it announced")
        return asked, descriptors.connect_names(descriptors.parse_descriptor(descriptor))

    async def greet(self, *, require_tls: bool) -> OracleStartup:
        """Accept the client, negotiate, and read its user name."""
        line = self._line
        asked, names = await self.connect_names()
        if asked.version < connects.LARGE:
            raise Denied("this client is older than Oracle Database 12.1")
        if require_tls and not self._encrypted:
            raise Denied("this gateway accepts only TLS connections; connect with PROTOCOL=TCPS")
        line.sdu = min(max(asked.sdu, tns.MIN_SDU), SDU)
        line.stream.write(connects.accept(line.sdu, min(asked.version, connects.SPOKEN)))
        self._accepted = line.large = True
        await line.message(_expecting(c.PROTOCOL, n.read_client_protocol))
        line.send(n.gateway_protocol())
        types = await line.message(_expecting(c.DATA_TYPES, n.read_client_types))
        self._layout = types.layout
        line.send(n.gateway_types(types))
        call = await self._call()
        if call.function != c.AUTH_PHASE_ONE:
            raise Unauthenticated("only logins with a user name and a password are supported")
        if call.mode & ~(auth.LOGON | auth.WITH_PASSWORD):
            raise Denied("logins as SYSDBA or alike, and changes of a password, are not supported through Postern")
        if not call.user:
            raise Unauthenticated("no user name was given; use the one of your connection credential")
        self._keep(call)
        return OracleStartup(call.user, names, types, line.sdu, self._encrypted)

    async def _call(self) -> auth.AuthCall:
        call = await self._line.message(lambda reader: auth.read_auth_call(reader, self._layout))
        self._sequence = call.sequence
        return call

    def _keep(self, call: auth.AuthCall) -> None:
        self._attributes |= {name: value for name, value in call.values.items() if name in _ATTRIBUTES}

    async def authenticate(self, verifier: Verifier, oracle: OracleVerifier) -> OracleClientSettings:
        """Authenticate the client. Raises Unauthenticated when its password is wrong."""
        call, password = await self._password(oracle)
        secret = Secret((password or b"\0").decode("utf-8", "surrogateescape"))
        if not await self._line.stream.offload(lambda: fits(secret, verifier)) or password is None:
            raise Unauthenticated(_REFUSED)
        return self._settings(call)

    async def let_in(self, oracle: OracleVerifier) -> OracleClientSettings:
        """Do the login of a client that is known already, whose password is TUNNEL_PASSWORD. Raises Unauthenticated for
        another one: the client would not accept the gateway's proof."""
        call, password = await self._password(oracle)
        if password is None or password.decode("utf-8", "replace") != TUNNEL_PASSWORD:
            raise Unauthenticated(f"the password of this local port is {TUNNEL_PASSWORD!r}, and any user name will do")
        return self._settings(call)

    async def _password(self, oracle: OracleVerifier) -> tuple[auth.AuthCall, bytes | None]:
        """Send the challenge, and return the client's answer with its password; None if it does not know the key."""
        line = self._line
        exchange = self._exchange = OracleServerExchange(oracle)
        line.send(auth.auth_answer(exchange.challenge(), self._sequence))
        call = await self._call()
        session_key, sealed = call.values.get("AUTH_SESSKEY", ""), call.values.get("AUTH_PASSWORD", "")
        if call.function != c.AUTH_PHASE_TWO or not session_key or not sealed:
            raise Unauthenticated("no password was given; use the one of your connection credential")
        if call.mode & ~(auth.LOGON | auth.WITH_PASSWORD) or "AUTH_NEWPASSWORD" in call.values:
            raise Denied("logins as SYSDBA or alike, and changes of a password, are not supported through Postern")
        if call.values.get("PROXY_CLIENT_NAME"):
            raise Denied("proxy users are not supported through Postern; connect as the credential's user")
        return call, exchange.open_password(session_key, sealed)

    def _settings(self, call: auth.AuthCall) -> OracleClientSettings:
        self._keep(call)
        alter = call.values.get("AUTH_ALTER_SESSION", "")
        if alter and _ALTER_SESSION.fullmatch(alter) is None:
            raise Denied("the client sets more than its time zone and language at login; do so in a statement")
        return OracleClientSettings(dict(self._attributes), alter)

    def welcome(self, values: Mapping[str, str]) -> bytes:
        """End the login with the values of the target's session. Return the bytes that were written."""
        assert self._exchange is not None
        pairs = [(name, value, 0) for name, value in values.items() if name not in _PRIVATE]
        pairs.append(("AUTH_SVR_RESPONSE", self._exchange.proof(), 0))
        data = tns.data_packets(auth.auth_answer(pairs, self._sequence), self._line.sdu)
        self._line.stream.write(data)
        return data

    def turn_away(self, number: int, text: str, hint: str = "") -> None:
        """Send an error, which can end a login at any time: before ACCEPT it is a REFUSE."""
        if not self._accepted:
            self._line.stream.write(connects.refuse(descriptors.refusal_descriptor(number, text)))
            return
        self._line.send(encode_error(number, refusal_text(number, text, hint), self._sequence))
        self._line.stream.write(tns.end_of_file())


def reject(stream: Handshake, number: int, text: str) -> None:
    """Send a REFUSE in place of anything else."""
    stream.write(connects.refuse(descriptors.refusal_descriptor(number, text)))


class OracleRedirect(PosternError):
    """The target's listener names another address, as in a cluster. The agent dials that one, and logs in there."""

    def __init__(self, address: descriptors.RedirectAddress) -> None:
        super().__init__(f"the target redirects to {address.host}:{address.port}")
        self.address = address


@dataclass(frozen=True, slots=True)
class OracleTargetLogin:
    """The gateway's parameters for a login. `service` and `sid` name the database; one of them is empty.

    `encrypted`: the stream starts TLS first, which Oracle Net calls TCPS. `native` is for streams without TLS. `types`
    are the client's; `descriptor` is the one of a redirect.
    """

    host: str
    port: int
    user: str
    password: Secret
    service: str = ""
    sid: str = ""
    encrypted: bool = False
    types: n.ClientTypes | None = None
    sdu: int = SDU
    attributes: Mapping[str, str] = field(default_factory=dict)
    alter_session: str = ""
    descriptor: bytes = b""
    native: NativeMode = NativeMode.PREFER

    @property
    def negotiates(self) -> bool:
        """Return whether to negotiate native encryption, which is not used inside of TLS."""
        return not self.encrypted and self.native is not NativeMode.DISABLE


@dataclass(frozen=True, slots=True)
class OracleTargetGreeting:
    """The result of a login. `values` are those of the session, `sdu` is the size of packets for the target."""

    version: str
    values: Mapping[str, str]
    layout: n.TtcLayout
    sdu: int


def _descriptor(login: OracleTargetLogin) -> bytes:
    if login.descriptor:
        return login.descriptor
    name = DescriptorNode("SERVICE_NAME", login.service) if login.service else DescriptorNode("SID", login.sid)
    who = (
        DescriptorNode("PROGRAM", login.attributes.get("AUTH_PROGRAM_NM", "postern")),
        DescriptorNode("HOST", login.attributes.get("AUTH_MACHINE", "postern")),
        DescriptorNode("USER", login.attributes.get("AUTH_SID", "postern")),
    )
    protocol = DescriptorNode("PROTOCOL", "tcps".removesuffix("" if login.encrypted else "s"))
    address = (protocol, DescriptorNode("HOST", login.host), DescriptorNode("PORT", str(login.port)))
    data = DescriptorNode("CONNECT_DATA", children=(name, DescriptorNode("CID", children=who)))
    root = DescriptorNode("DESCRIPTION", children=(data, DescriptorNode("ADDRESS", children=address)))
    return root.encode().encode("utf-8", "replace")


async def connect(stream: OracleHandshake, login: OracleTargetLogin) -> OracleTargetGreeting:
    """Log in to the target. Raises TargetRefused, OracleRedirect, Unavailable or ProtocolViolation."""
    line = _Line(stream, "target")
    if login.encrypted:
        await stream.start_tls()
    accepted = await _open(line, login)
    line.sdu = min(accepted.sdu, login.sdu)
    line.large = True
    cipher = await _negotiate_encryption(line, login, accepted)
    if cipher is not None:
        stream.encrypt_stream(cipher)
    types = (login.types or n.own_types()).lower()
    layout = types.layout
    line.send(n.client_protocol(_CLIENT_NAME))
    protocol = await line.message(_expecting(c.PROTOCOL, n.read_server_protocol))
    if protocol.field_version < layout.field_version:
        raise Unavailable(
            "the target is older than the client's version of the protocol, which needs Oracle Database 19c; "
            "upgrade the target"
        )
    if not protocol.has_time_zone:
        types = types.without_time_zone()
    line.send(types.encode())
    await line.message(_expecting(c.DATA_TYPES, lambda reader: n.read_server_types(reader, types)))
    values = await _authenticate(line, login, layout, cipher)
    banner = protocol.banner.decode("utf-8", "replace")
    return OracleTargetGreeting(values.get("AUTH_VERSION_STRING", banner), values, layout, line.sdu)


async def _open(line: _Line, login: OracleTargetLogin) -> connects.TnsAccept:
    """Send CONNECT, and return the target's ACCEPT."""
    request = connects.connect(
        _descriptor(login), login.sdu, redirected=bool(login.descriptor), native=login.negotiates
    )
    for _ in range(_MAX_RESENDS):
        line.stream.write(request)
        packet = await line.packet()
        if packet.type == tns.ACCEPT:
            return _require_version(connects.parse_accept(packet.body))
        if packet.type == tns.REFUSE:
            reason = connects.parse_refuse(packet.body)
            code = descriptors.refusal_code(reason)
            raise TargetRefused(_REASONS.get(code, "the target's listener refused the connection"), f"ORA-{code:05d}")
        if packet.type == tns.REDIRECT:
            length, data = connects.parse_redirect_length(packet.body)
            if data is None:
                data = await line.data(is_last=True)
            if len(data) != length:
                raise ProtocolViolation("the target sent a REDIRECT of another length than it announced")
            raise OracleRedirect(descriptors.parse_redirect(data))
        if packet.type != tns.RESEND:
            raise ProtocolViolation(f"the target sent a packet of type {packet.type} in place of ACCEPT")
        if packet.flags & _TLS_AGAIN:
            raise Unavailable("the target starts TLS twice, which is not supported; connect to its own port for TCPS")
    raise ProtocolViolation("the target asks for CONNECT again and again")


_REASONS: Final = {
    12_505: "the target's listener does not know that SID; check the connection's SID",
    12_514: "the target's listener does not know that service name; check the connection's DB",
    12_516: "the target's listener has no handler for the service; the database may be starting or full",
    12_520: "the target's listener has no handler for the service; the database may be starting or full",
    12_528: "the target's database is not open for connections",
}


def _require_version(accepted: connects.TnsAccept) -> connects.TnsAccept:
    if accepted.version < connects.LARGE:
        raise Unavailable("the target is older than Oracle Database 12.1")
    return accepted


async def _negotiate_encryption(
    line: _Line, login: OracleTargetLogin, accepted: connects.TnsAccept
) -> NativeCipher | None:
    """Negotiate native encryption. Return the cipher for what follows; None: it stays in clear text. Raises
    Unavailable."""
    if not login.negotiates or not accepted.negotiates:
        _require_clear(login, accepted)
        return None
    negotiation = NativeNegotiation(login.native)
    line.send(negotiation.request())
    try:
        choice = negotiation.read_answer(await line.message(read_message))
    except ConnectionError:
        raise Unavailable(
            "the target closed the connection when native encryption was negotiated; its log says why. "
            "Set NATIVE_ENCRYPTION to disable to do without it"
        ) from None
    if choice.is_clear:
        return None
    answer, cipher = await line.stream.offload(lambda: negotiation.agree(choice, line.sdu))
    line.send(answer)
    line.sdu -= cipher.overhead
    return cipher


def _require_clear(login: OracleTargetLogin, accepted: connects.TnsAccept) -> None:
    """Raise Unavailable if the target, or the connection, requires native encryption, which is not negotiated."""
    if accepted.encryption_required and login.encrypted:
        raise Unavailable(
            "the target requires native network encryption inside of TLS, which is not supported; "
            "set SQLNET.IGNORE_ANO_ENCRYPTION_FOR_TCPS to TRUE there"
        )
    if accepted.encryption_required:
        raise Unavailable(
            "the target requires native network encryption, and the connection's NATIVE_ENCRYPTION is disable; "
            "set it to prefer, or use TLS (TCPS)"
            if login.native is NativeMode.DISABLE
            else "the target requires native network encryption, but does not negotiate it"
        )
    if login.native is NativeMode.REQUIRE and not login.encrypted:
        raise Unavailable(absent("the target has no native network encryption"))


async def _authenticate(
    line: _Line, login: OracleTargetLogin, layout: n.TtcLayout, cipher: NativeCipher | None
) -> Mapping[str, str]:
    """Authenticate the gateway's account, and return the values of the session."""
    about = {name: login.attributes.get(name, "postern") for name in _PROGRAM}
    about["AUTH_PID"] = login.attributes.get("AUTH_PID", "1")
    pairs = [(name, value, 0) for name, value in about.items()]
    line.send(auth.auth_call(c.AUTH_PHASE_ONE, 1, login.user, auth.LOGON, pairs, layout))
    challenge = _require_no_error(await line.message(lambda reader: auth.read_auth_answer(reader, layout)))
    password = login.password.reveal().encode("utf-8", "surrogateescape")
    exchange = OracleClientExchange(challenge.values, challenge.kind, password)
    pairs = await line.stream.offload(exchange.answer)
    pairs += [("SESSION_CLIENT_CHARSET", str(c.AL32UTF8), 0)]
    pairs += [(name, value, 0) for name, value in login.attributes.items() if name.startswith("SESSION_CLIENT_")]
    if login.alter_session:
        pairs.append(("AUTH_ALTER_SESSION", login.alter_session + "\0", 1))
    mode = auth.LOGON | auth.WITH_PASSWORD
    line.send(auth.auth_call(c.AUTH_PHASE_TWO, 2, login.user, mode, pairs, layout))
    answer = _require_no_error(await line.message(lambda reader: auth.read_auth_answer(reader, layout)))
    if not exchange.is_proved(answer.values.get("AUTH_SVR_RESPONSE", "")):
        raise ProtocolViolation("the target did not prove that it knows the password of the gateway's account")
    if cipher is not None:
        cipher.fold(exchange.session_key)
    return {name: value for name, value in answer.values.items() if name not in _PRIVATE}


def _require_no_error(answer: auth.AuthAnswer) -> auth.AuthAnswer:
    if answer.error:
        # SQLSTATE class 28 stands for a refused login, see TargetRefused.
        code = "28000" if answer.error in (1017, 28_000, 28_001, 1005) else f"ORA-{answer.error:05d}"
        raise TargetRefused(answer.message or f"ORA-{answer.error:05d}", code)
    return answer
