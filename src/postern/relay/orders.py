"""The requests of a gateway to an agent and their answers: plain values, and their JSON form on a tunnel.

An order contains everything that is needed to reach one target for one session. The agent reads no store and knows no
policy. Secrets are in it as stored, with unresolved references, and are protected by the tunnel's TLS.

    OPEN {"order": "dial", …Order…}             ◀── ACCEPT {"parameters": {…}, "process": 1, "key": "hex"}
                                                 or  REFUSE {"code": …, "message": …}
    OPEN {"order": "cancel", …Order…, "process": 1, "key": "hex"}          ◀── ACCEPT {}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from uuid import UUID

from postern.domain.rules.permit import Permit
from postern.domain.secret import Secret
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import ConnectionType
from postern.domain.tracing import TRACEPARENT, current, parent_of
from postern.errors import Denied, PosternError, ProtocolViolation, TooMany, Unavailable
from postern.protocols.gateway_queries import TargetRefused
from postern.relay.relay_target import ChannelKind, ChannelRequest, Start, Target, Terminal
from postern.transport.mux import Refused

DIAL, CANCEL = "dial", "cancel"


@dataclass(frozen=True, slots=True)
class Order:
    """A request to reach one target for one session.

    `secret` maps `envvar:KEY` or `filesystem:KEY` to base64 text or a reference (spec 2.1). `timeout` limits the time
    until the target is ready, in seconds.
    """

    session_id: UUID
    user_id: str
    user_email: str
    verb: Verb
    connection_id: UUID
    connection: str
    type: ConnectionType
    subtype: str
    command: tuple[str, ...]
    secret: Mapping[str, Secret]
    start: Start
    timeout: float
    trace: str = ""  # traceparent of the caller; empty if nothing is traced

    @classmethod
    def of(cls, permit: Permit, start: Start, session_id: UUID, timeout: float) -> Order:
        connection, principal = permit.connection, permit.principal
        return cls(
            session_id=session_id,
            user_id=principal.subject,
            user_email=principal.email,
            verb=permit.verb,
            connection_id=connection.id,
            connection=connection.name,
            type=connection.type,
            subtype=connection.subtype,
            command=connection.command,
            secret=connection.secret,
            start=start,
            timeout=timeout,
            trace=current().traceparent,
        )

    def message(self, order: str) -> dict[str, Any]:
        """Return the JSON form, with secrets in clear text: for the tunnel only."""
        return {
            "order": order,
            "session_id": str(self.session_id),
            "user_id": self.user_id,
            "user_email": self.user_email,
            "verb": self.verb,
            "connection_id": str(self.connection_id),
            "connection": self.connection,
            "type": self.type,
            "subtype": self.subtype,
            "command": list(self.command),
            "secret": {key: value.reveal() for key, value in self.secret.items()},
            "start": asdict(self.start),
            "timeout": self.timeout,
            TRACEPARENT: self.trace,
        }

    @classmethod
    def read(cls, message: Mapping[str, Any]) -> Order:
        """Parse an order. Raises ProtocolViolation when it is invalid."""
        try:
            return cls(
                session_id=UUID(message["session_id"]),
                user_id=str(message["user_id"]),
                user_email=str(message["user_email"]),
                verb=Verb(message["verb"]),
                connection_id=UUID(message["connection_id"]),
                connection=str(message["connection"]),
                type=ConnectionType(message["type"]),
                subtype=str(message["subtype"]),
                command=tuple(map(str, message["command"])),
                secret={str(key): Secret(str(value)) for key, value in message["secret"].items()},
                start=_start(message["start"]),
                timeout=float(message["timeout"]),
                trace=parent_of(message.get(TRACEPARENT)),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            # The original error's text may quote a secret.
            raise ProtocolViolation(f"the order is not valid ({type(error).__name__})") from None


def _start(message: Mapping[str, Any]) -> Start:
    terminal = message["terminal"]
    channel, host_keys = message.get("channel"), message.get("host_keys")  # older gateways omit them
    return Start(
        database=None if message["database"] is None else str(message["database"]),
        parameters=_texts(message["parameters"]),
        arguments=tuple(map(str, message["arguments"])),
        environment=_texts(message["environment"]),
        terminal=None
        if terminal is None
        else Terminal(int(terminal["columns"]), int(terminal["rows"]), str(terminal["name"])),
        channel=None
        if channel is None
        else ChannelRequest(ChannelKind(channel["kind"]), str(channel["what"]), str(channel["login"])),
        host_keys=None if host_keys is None else tuple(map(str, host_keys)),
    )


def _texts(message: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in message.items()}


def encode_answer(target: Target) -> dict[str, Any]:
    """Return the agent's answer about a target that it reached."""
    return {"parameters": target.parameters, "process": target.process, "key": target.key.hex()}


def read_answer(target: Target, message: Mapping[str, Any]) -> None:
    """Fill `target` from the agent's answer. Raises ProtocolViolation when the answer is invalid."""
    try:
        target.parameters = _texts(message["parameters"])
        target.process, target.key = int(message["process"]), bytes.fromhex(message["key"])
        if not 0 <= target.process < 1 << 64:
            raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):  # JSON allows numbers beyond int()
        raise ProtocolViolation("the agent's answer is not valid") from None


def encode_error(error: PosternError) -> tuple[str, str, dict[str, str]]:
    """Return an agent's failure as the fields that refuse a stream: code, message, details."""
    if isinstance(error, TargetRefused):
        return "TargetRefused", error.message, {"sqlstate": error.code, "hint": error.hint}
    return type(error).__name__, error.message, {}


def decode_error(refused: Refused) -> PosternError:
    """Return the error that the gateway raises for a refused stream, as if it had dialled the target itself."""
    if refused.code == "TargetRefused":
        details = refused.details
        return TargetRefused(refused.message, details.get("sqlstate", ""), details.get("hint", ""))
    if refused.code == "ProtocolViolation":
        return ProtocolViolation(refused.message)
    if refused.code == "TooMany":
        return TooMany(refused.message)
    if refused.code == "Denied":
        return Denied(refused.message)
    return Unavailable(refused.message)
