"""Logins of the product at the server of tests, in memory, with native encryption as both sides have it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.oracledb.database import Database
from tests.support.oracledb.listener_packets import BadPacket, PacketSplitter
from tests.support.oracledb.native_services import NativeOptions
from tests.support.oracledb.server_session import ServerOptions, ServerSession
from tests.support.oracledb.ttc_fields import BadMessage
from tests.support.protocols.memory_handshake import MemoryHandshake, pair

from postern.domain.secret import Secret
from postern.errors import PosternError
from postern.protocols.oracledb.login import oracle_login as login

Change = Callable[[bytes], bytes]


def unchanged(data: bytes) -> bytes:
    return data


@dataclass
class NativeMeeting:
    """A login that was tried: its result, both ends, and what the server did not understand."""

    session: ServerSession
    near: MemoryHandshake
    far: MemoryHandshake
    greeting: login.OracleTargetGreeting | None = None
    error: PosternError | OSError | None = None
    failure: str = ""


def target_login(**changed: object) -> login.OracleTargetLogin:
    requested = login.OracleTargetLogin("db", 1521, "POSTERN", Secret("Secret_1"), service="ORCLPDB1")
    return replace(requested, **changed)  # type: ignore[arg-type]


async def meet(
    folder: Path,
    native: NativeOptions | None,
    requested: login.OracleTargetLogin,
    *,
    size: int = 0,
    change: Change = unchanged,
    patience: float = 20,
    **options: object,
) -> NativeMeeting:
    """Log in. The server's bytes arrive in pieces of `size`, after `change` has changed each of its replies. With
    nothing new for `patience` seconds, the login is given up."""
    near, far = pair()
    database = Database(Path(tempfile.mkdtemp(dir=folder)))
    session = ServerSession(database, replace(ServerOptions(native=native), **options))  # type: ignore[arg-type]
    meeting = NativeMeeting(session, near, far)
    serving = asyncio.create_task(serve(meeting, size, change))
    try:
        meeting.greeting = await asyncio.wait_for(login.connect(near, requested), patience)
    except (PosternError, ConnectionError, TimeoutError) as error:
        meeting.error = error
    near.close()
    await asyncio.wait_for(serving, 20)
    session.end()
    return meeting


async def serve(meeting: NativeMeeting, size: int, change: Change) -> None:
    splitter, far, session = PacketSplitter(), meeting.far, meeting.session
    try:
        while not session.closed:
            await far.peek(1)
            splitter.feed(far.take())
            while not session.closed and (packet := splitter.next_packet()) is not None:
                reply = change(session.seal(session.receive(packet)))
                splitter.large = session.large_packets
                for start in range(0, len(reply), size or len(reply) or 1):
                    far.write(reply[start : start + (size or len(reply))])
                    await asyncio.sleep(0)
    except ConnectionError:
        pass
    except (BadMessage, BadPacket) as error:
        meeting.failure = str(error)
    finally:
        far.close()
