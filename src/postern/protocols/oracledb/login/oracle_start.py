"""What a client's login passes on to the target's, and the other way round, as texts: they travel to the agent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from postern.errors import ProtocolViolation
from postern.protocols.oracledb.login.oracle_login import SDU, OracleTargetGreeting
from postern.protocols.oracledb.wire import tns_packets as tns
from postern.protocols.oracledb.wire import ttc_codes as c
from postern.protocols.oracledb.wire import ttc_negotiation as n
from postern.protocols.oracledb.wire.ttc_buffers import TtcIncomplete, TtcReader

_ATTRIBUTE = "attribute."


@dataclass(frozen=True, slots=True)
class OracleStart:
    """What a client has negotiated. `types` are None for the gateway's own logins."""

    types: n.ClientTypes | None = None
    sdu: int = SDU
    attributes: Mapping[str, str] = field(default_factory=dict)
    alter_session: str = ""

    @property
    def layout(self) -> n.TtcLayout:
        return n.TtcLayout() if self.types is None else self.types.layout

    def texts(self) -> dict[str, str]:
        """Return this as the parameters of a start."""
        values = {
            "types": "" if self.types is None else self.types.encode().hex(),
            "sdu": str(self.sdu),
            "alter_session": self.alter_session,
            **{_ATTRIBUTE + name: value for name, value in self.attributes.items()},
        }
        return {name: value for name, value in values.items() if value}

    @classmethod
    def read(cls, texts: Mapping[str, str]) -> OracleStart:
        """Parse the parameters of a start. Raises ProtocolViolation."""
        try:
            types = bytes.fromhex(texts.get("types", ""))
            sdu = int(texts.get("sdu", str(SDU)))
            return cls(
                _read_types(types) if types else None,
                min(max(sdu, tns.MIN_SDU), SDU),
                {name.removeprefix(_ATTRIBUTE): text for name, text in texts.items() if name.startswith(_ATTRIBUTE)},
                texts.get("alter_session", ""),
            )
        except (ValueError, TtcIncomplete):
            raise ProtocolViolation("the parameters of a login to Oracle Database are not valid") from None


@dataclass(frozen=True, slots=True)
class DatabaseName:
    """The service or the SID that a login is for; both are empty if it names none. As the database of a start, a SID is
    `SID=name`, which no service is called."""

    service: str = ""
    sid: str = ""

    @classmethod
    def read(cls, database: str | None) -> DatabaseName:
        name = database or ""
        return cls(sid=name.removeprefix(_SID)) if name.startswith(_SID) else cls(service=name)

    @property
    def database(self) -> str | None:
        return (_SID + self.sid if self.sid else self.service) or None

    @property
    def statement(self) -> str:
        """Return the statement that a login with this name counts as."""
        kind, name = ("SID", self.sid) if self.sid else ("SERVICE", self.service)
        quoted = name.replace('"', '""')
        return f'CONNECT TO {kind} "{quoted}"'

    def is_own(self, own: DatabaseName) -> bool:
        """Return whether it leads to the connection's own database. A name that is its SID is never a service."""
        if self.sid or self.service.lower() == own.sid.lower():
            return (self.sid or self.service).lower() == own.sid.lower()
        return self.service.lower() == own.service.lower()


_SID = "SID="


def _read_types(data: bytes) -> n.ClientTypes:
    reader = TtcReader(data)
    if reader.ub1() != c.DATA_TYPES:
        raise ValueError
    types = n.read_client_types(reader)
    if reader.pos != reader.end:
        raise ValueError
    return types


def own_options(name: str) -> Mapping[str, str]:
    """Return the parameters of the gateway's own logins. `name` says what the login is for."""
    return OracleStart(attributes={"AUTH_PROGRAM_NM": name, "AUTH_TERMINAL": "postern"}).texts()


def target_parameters(greeting: OracleTargetGreeting) -> dict[str, str]:
    """Return what a target has answered, as texts."""
    values = {name: value.encode("utf-8", "replace").decode() for name, value in greeting.values.items()}
    return {"version": greeting.version, "sdu": str(greeting.sdu), "values": json.dumps(values)}


def read_session_values(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the values of the target's session. Raises ProtocolViolation."""
    try:
        values = json.loads(parameters.get("values", "{}"))
        return {str(name): str(value) for name, value in values.items()}
    except (ValueError, AttributeError):
        raise ProtocolViolation("the agent's answer is not valid") from None
