"""The toy protocol keeps the contracts of protocols, in a copy of the source that has it: see
tests/test_add_a_protocol.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

from tests.support.protocols.login_contracts import Gate, check_gate, check_log_in
from tests.support.protocols.query_contracts import check_lens, check_script
from tests.support.protocols.wire_contracts import check_masking, check_wire
from tests.support.waiting import somebody

from postern.domain.identity.credential import Grant
from postern.domain.secret import Secret
from postern.errors import Unauthenticated
from postern.gateway.clients.session_setup import ClientSession, SessionSetup
from postern.protocols.pantry.pantry_listener import PantryGate
from postern.protocols.pantry.pantry_login import log_in
from postern.protocols.pantry.pantry_script import PantryScript
from postern.protocols.pantry.pantry_text_renderer import PantryTextRenderer
from postern.protocols.pantry.pantry_wire import PantryWire
from postern.protocols.wire_base import Side
from postern.relay.relay_handshake import StreamHandshake
from postern.services.identity.credentials import make_verifier

USER, STRANGER, PASSWORD = "ann-pantry_1-abc234", "eve-pantry_1-abc234", "pass word"
SECRET = b"secret-4711"


def wire() -> PantryWire:
    return PantryWire(max_message=1000)


def test_wire() -> None:
    check_wire(
        wire,
        [
            (Side.CLIENT, b"SET fruit an apple\nGET fruit\n"),
            (Side.TARGET, b"OK\nVALUE an apple\n"),
            (Side.CLIENT, b"GET nothing\nSET fruit \n"),
            (Side.TARGET, b"NONE\nNOTE the disk is nearly full\nERROR read only\n"),
            (Side.CLIENT, b"QUIT\n"),
        ],
        garbage=[
            (Side.CLIENT, b"GET / HTTP/1.1\r\n"),
            (Side.CLIENT, b"SET fruit\n"),
            (Side.CLIENT, b"x" * 2000),
            (Side.TARGET, b"OK\n"),
        ],
    )


def test_masking() -> None:
    asked = (Side.CLIENT, b"GET a\nGET b\nGET c\n")
    told = (Side.TARGET, b"VALUE my " + SECRET + b"\nNOTE hm\nERROR no " + SECRET + b" here\nNONE\n")
    check_masking(wire, [asked, told], secret=SECRET)


def test_script() -> None:
    check_script(PantryScript, wire, "GET fruit", answer=b"VALUE an apple\n", failing=b"NOTE hm\nERROR it is away\n")


def test_text_renderer() -> None:
    shown = b"VALUE an apple\nOK\nERROR read only\nNONE\n"
    check_lens(PantryTextRenderer, shown, [("o", b"an apple\nOK\n"), ("e", b"ERROR read only\n"), ("o", b"NONE\n")])


class Doors:
    """Stands for `SessionSetup`: whoever has proved who they are is welcomed."""

    def __init__(self) -> None:
        self.engine = SimpleNamespace(links=SimpleNamespace(changes=0), turned_away=lambda error: None)

    async def find_grant(self, username: str) -> Grant | None:
        if username != USER:
            return None
        return Grant(uuid4(), USER, make_verifier(Secret(PASSWORD)), somebody(), cast(Any, None), None, None)

    async def by_credential(self, client: ClientSession, grant: Grant | None) -> Grant | None:
        if grant is None:
            client.turn_away(Unauthenticated("there is no such credential"))
            return None
        client.welcome(cast(Any, None))
        return grant


def gate() -> Gate:
    pantry = PantryGate(cast(SessionSetup, Doors()), decoy_secret=b"decoy")

    async def let_in(stream: StreamHandshake) -> bool:
        return await pantry.native(stream, require_tls=False) is not None

    return let_in


async def log_in_plainly(stream: StreamHandshake, user: str, password: str) -> None:
    await log_in(stream, user, Secret(password), "disable")


async def test_gate() -> None:
    garbage = [b"GET / HTTP/1.1\r\n", b"\n", b"\xff" * 2000, b"LOGIN\n", b"TLS\nTLS\n"]
    await check_gate(
        gate, log_in_plainly, user=USER, stranger=STRANGER, password=PASSWORD, garbage=garbage, sends_password=True
    )


async def test_log_in() -> None:
    garbage = [b"SSH-2.0-OpenSSH_9.2\r\n", b"VALUE x\n", b"\0" * 2000, b"ERROR go away\n"]
    await check_log_in(gate, log_in_plainly, user=USER, password=PASSWORD, garbage=garbage)
