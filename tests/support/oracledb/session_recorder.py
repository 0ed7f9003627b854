"""Records sessions: of a client with a real server, by a relay in between, or of clients with the test server.

    python -m tests.support.oracledb.session_recorder relay PORT HOST:PORT FILE CLIENT SERVER ABOUT
    python -m tests.support.oracledb.session_recorder own

The relay serves one connection. It must not be encrypted: neither TCPS nor native network encryption.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from tests.support.oracledb.recorded_sessions import FOLDER, OWN_SERVER, RecordedSession, repeatable_options
from tests.support.oracledb.running_server import running_oracle
from tests.support.oracledb.server_replies import ORACLE_12, ORACLE_19, ORACLE_23
from tests.support.oracledb.server_session import ServerOptions

PROGRAM = """
import sys, oracledb
connection = oracledb.connect(user=sys.argv[1], password=sys.argv[2], dsn=sys.argv[3], program="recorded",
                              machine="client.example", osuser="ann", terminal="tty")
cursor = connection.cursor()
cursor.execute("create table people (id number(10) primary key, name varchar2(40), born date, note clob)")
cursor.executemany("insert into people values (:1, :2, date '2000-01-02', :3)",
                   [(n, f"name {n // 3}", "note " * n) for n in range(30)])
connection.commit()
for id in (3, 4):
    cursor.execute("select id, name, born, note from people where id <= :id order by id", [id])
    [(row[0], row[3].read() if row[3] else None) for row in cursor]
cursor.execute("select id, name from people order by id").fetchall()
try:
    cursor.execute("select * from missing")
except oracledb.Error:
    pass
answer = cursor.var(int)
cursor.execute("begin :answer := 6 * 7; end;", [answer])
cursor.execute("delete from people where id = 1")
connection.rollback()
connection.close()
"""


async def relay_once(port: int, target: str, session: RecordedSession) -> None:
    """Relay one connection to the target, and note what goes through."""
    done = asyncio.Event()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_client: bool) -> None:
        while data := await reader.read(65536):
            session.pieces.append((is_client, data))
            writer.write(data)
            await writer.drain()
        writer.close()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, target_port = target.rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(target_port))
        await asyncio.gather(pump(reader, far_writer, True), pump(far_reader, writer, False), return_exceptions=True)
        done.set()

    async with await asyncio.start_server(handle, "127.0.0.1", port):
        print(f"Connect the client to 127.0.0.1:{port}; its session is written when it ends.")
        await done.wait()


def record_own() -> None:
    """Record python-oracledb with the test server, once for each level."""
    import oracledb

    for name, level in {"12c": ORACLE_12, "19c": ORACLE_19, "23ai": ORACLE_23}.items():
        about = "tables, array DML, queries with binds and CLOBs, an error, a block, a rollback"
        session = RecordedSession(f"python-oracledb {oracledb.__version__}", f"{OWN_SERVER} {name}", about)
        options = repeatable_options(ServerOptions(level=level, sdu=2048))
        with running_oracle(options) as server:
            server.taps.append(lambda is_client, data, into=session: into.pieces.append((is_client, data)))  # type: ignore[misc]
            arguments = [server.user, server.password, server.easy_connect]
            subprocess.run([sys.executable, "-c", PROGRAM, *arguments], check=True, timeout=120)
        FOLDER.mkdir(parents=True, exist_ok=True)
        session.write(FOLDER / f"own-{name}-python-oracledb.jsonl")


def main(arguments: list[str]) -> None:
    if arguments == ["own"]:
        record_own()
    elif len(arguments) == 7 and arguments[0] == "relay":
        _, port, target, file, client, server, about = arguments
        session = RecordedSession(client, server, about)
        asyncio.run(relay_once(int(port), target, session))
        session.write(Path(file))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
