"""The options that a client chose at its login, as plain texts in an order to the agent, which logs in to the
target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from postern.protocols.mysql.login import mysql_greetings as g

_USER, _CAPABILITIES, _COLLATION, _ATTRIBUTE = "user", "capabilities", "collation", "attribute:"

# Options of the gateway's own logins: they change no meaning of statements, and request no files.
OWN = g.NEEDED | g.LONG_FLAG | g.TRANSACTIONS | g.MULTI_STATEMENTS | g.MULTI_RESULTS | g.PS_MULTI_RESULTS


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """The options. `user` is the name at the gateway, which targets do not get. Attributes are names and values as
    performance_schema shows them."""

    user: str = ""
    capabilities: int = OWN
    collation: int = g.UTF8MB4
    attributes: Mapping[bytes, bytes] = field(default_factory=dict)

    def texts(self) -> dict[str, str]:
        """Return the options as texts. Bytes that are not UTF-8 round-trip."""
        attributes = {
            _ATTRIBUTE + _decode_text(name): _decode_text(value)
            for name, value in self.attributes.items()
            if name or value
        }
        return {_USER: self.user, _CAPABILITIES: str(self.capabilities), _COLLATION: str(self.collation), **attributes}

    @classmethod
    def read(cls, texts: Mapping[str, str]) -> ClientOptions:
        """Parse the options. Missing ones are those of the gateway's own logins."""
        attributes = {
            _encode_text(name.removeprefix(_ATTRIBUTE)): _encode_text(value)
            for name, value in texts.items()
            if name.startswith(_ATTRIBUTE)
        }
        capabilities, collation = texts.get(_CAPABILITIES, ""), texts.get(_COLLATION, "")
        return cls(
            texts.get(_USER, ""),
            int(capabilities) if capabilities.isdecimal() else OWN,
            int(collation) if collation.isdecimal() else g.UTF8MB4,
            attributes,
        )


def own(name: str) -> Mapping[str, str]:
    """Return the options of the gateway's own login under that program name."""
    return ClientOptions(attributes={b"program_name": name.encode()}).texts()


def _decode_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
