"""A session that shows gigabytes: recorded by a whole gateway, read in every way by processes that stay small."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from tests.support.accounts import Account, left_over, ok, reach, signed_in
from tests.support.agents import url_of
from tests.support.postgres import PostgresServer
from tests.support.processes import forget_peak, peak, resident
from tests.support.promises import wait_until
from tests.support.running import Gateway, started

MIB = 1 << 20
MOST_GROWTH = 100 * MIB  # of a process that reads
EACH = 8  # MiB that one statement shows
# Rows of 1 KiB that zstd does not make nothing of.
STATEMENT = (
    "copy (select n, (select string_agg(md5(n::text || k), '') from generate_series(1, 30) k)"
    " from generate_series(%d, %d) n) to stdout"
)


def show(url: str, megabytes: int) -> int:
    """By one session, in exchanges of EACH MiB. Answers how many exchanges."""
    with psycopg.connect(url, autocommit=True) as client, client.cursor() as cursor:
        for number in range(megabytes // EACH):
            with cursor.copy(STATEMENT % (number * EACH * 1024 + 1, (number + 1) * EACH * 1024)) as copy:
                for _ in copy:
                    pass
    return megabytes // EACH


@contextmanager
def small(pid: int, what: str) -> Iterator[None]:
    """The process does not grow by more than MOST_GROWTH meanwhile."""
    forget_peak(pid)
    before, began = resident(pid), time.monotonic()
    yield
    grown = peak(pid) - before
    print(f"{what}: {time.monotonic() - began:.1f} s, {grown / MIB:.0f} MiB more")
    assert grown < MOST_GROWTH, f"{what} took {grown >> 20} MiB"


def run_small(gateway: Gateway, *arguments: str) -> tuple[int, int, bytes]:
    """A command in a process of its own: its exit code, how many bytes it printed, and the last of them. It stays
    small."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "postern", *arguments],
        env=gateway.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    most, size, last = 0, 0, b""
    stop = threading.Event()

    def watch() -> None:
        nonlocal most
        while not stop.wait(0.05):
            try:
                most = max(most, peak(process.pid))
            except (OSError, AssertionError):
                return

    watching = threading.Thread(target=watch)
    watching.start()
    with process:
        assert process.stdout is not None
        while data := process.stdout.read(MIB):
            size += len(data)
            last = (last + data)[-4000:]
    stop.set()
    watching.join()
    print(
        f"postern {' '.join(arguments[:3])}: {time.monotonic() - began:.1f} s, {size >> 20} MiB, {most >> 20} MiB held"
    )
    assert most < 100 * MIB + MOST_GROWTH  # of which the program itself is about the first part
    return process.returncode, size, last


def streamed(api: httpx.Client, path: str, **query: Any) -> tuple[int, int]:
    """Bytes, and how often damage is told."""
    size, damaged, before = 0, 0, b""
    with api.stream("GET", path, params=query, timeout=600) as answer:
        assert answer.is_success, answer.read()
        for piece in answer.iter_bytes():
            size += len(piece)
            damaged += (before + piece).count(b"cannot be read further")
            before = piece[-21:]
    return size, damaged


def streamed_again(api: httpx.Client, path: str, **query: Any) -> tuple[int, int]:
    """Of a file that was made before with another length: its first answer is cut off, and only that."""
    with suppress(httpx.RemoteProtocolError):
        streamed(api, path, **query)
    return streamed(api, path, **query)


def look(gateway: Gateway, api: httpx.Client, session: str, count: int, folder: Path) -> None:
    """In every way, with a bound on what the processes hold."""
    [process] = gateway.processes("api")
    megabytes, url = count * EACH, f"/sessions/{session}"
    assert api.get(f"{url}/timeline", params={"limit": 1}).is_success  # what is loaded once
    with small(process, "list and a page in the middle"):
        assert [one["id"] for one in api.get("/sessions", params={"connection": "target"}).json()["data"]] == [session]
        every = api.get(f"{url}/timeline", params={"limit": 100}).json()["data"]
        middle = every[len(every) // 2]["at"]
        page = api.get(f"{url}/timeline", params={"from": middle, "limit": 3, "output": 1000}).json()["data"]
        assert page[0]["statement"] == every[len(every) // 2]["statement"]
        assert page[0]["output"]
        part = api.get(url, params={"expand": "event_stream", "from": middle, "limit": 5}).json()["event_stream"]
        assert len(part) == 5
    for extension in ("txt", "csv", "json"):
        with small(process, f"download as {extension}"):
            size, damaged = streamed(api, url, extension=extension)
        assert size > megabytes * 950_000
        assert damaged == 0
    link = urlsplit(api.post(f"{url}/download", params={"extension": "csv"}).json()["download_url"])
    with small(process, "the end of a file by Range"):
        answer = api.get(f"{link.path.removeprefix('/api')}?{link.query}", headers={"Range": "bytes=-100"}, timeout=600)
        assert (answer.status_code, len(answer.content)) == (206, 100)
    with small(process, "a stream of events"):
        assert streamed(api, f"{url}/stream")[0] > megabytes * MIB
    with small(process, "a timeline"):
        streamed(api, f"{url}/export", format="timeline")
    export, key = folder / "proof.tar", folder / "ledger.pem"
    with small(process, "an export with its proof"):
        code, _, _ = run_small(gateway, "recordings", "export", "-o", str(export))
        assert code == 0
    key.write_text(ok(gateway, "recordings", "key"))
    code, _, last = run_small(gateway, "sessions", "verify", str(export), "--key", str(key), "--json")
    assert code == 0, last
    export.unlink()
    seconds = f"{middle / 1000:.3f}"
    code, _, last = run_small(gateway, "sessions", "replay", session, "--seek", seconds, "--speed", "1000")
    assert code == 0, last
    code, size, _ = run_small(gateway, "sessions", "export", session, "--format", "csv")
    assert (code, size > megabytes * 950_000) == (0, True)


def damage_one(gateway: Gateway) -> Path:
    """A segment in the middle, in the folder of the blob store."""
    found = sorted(gateway.home.glob("recordings/**/*.zst*"), key=lambda path: path.name)
    path = found[len(found) // 2]
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return path


def look_at_damage(gateway: Gateway, api: httpx.Client, session: str, count: int, folder: Path) -> None:
    """One segment hurts only itself, and every way of reading says so."""
    damage_one(gateway)
    url, whole = f"/sessions/{session}", count * EACH * 950_000
    for extension in ("txt", "csv", "json"):
        size, damaged = streamed_again(api, url, extension=extension)
        assert damaged == 1, extension
        assert size > whole - 3 * EACH * MIB
    assert streamed_again(api, f"{url}/export", format="timeline")[1] == 1
    last = api.get(f"{url}/timeline", params={"limit": 1000}).json()["data"][-2:]
    assert any(one["tag"].startswith("COPY") for one in last)
    assert "cannot be read further" in ok(gateway, "sessions", "show", session)
    export = folder / "damaged.tar"
    ok(gateway, "recordings", "export", "-o", str(export))
    done = gateway.run("sessions", "verify", str(export), "--key", str(folder / "ledger.pem"), "--json")
    found = json.loads(done.stdout)["findings"]
    assert {one["session"] for one in found} == {session}
    assert len({one["segment"] for one in found if one["segment"]}) == 1


def large_session(target: PostgresServer, folder: Path, megabytes: int, **settings: str) -> None:
    with started("--no-demo", again=False, **{"RECORDING_OUTPUT_LIMIT": str(1 << 40), **settings}) as gateway:
        reach(gateway, "target", target.port)
        api = signed_in(gateway)
        began = time.monotonic()
        count = show(url_of(gateway, "target"), megabytes)
        print(f"{megabytes} MiB were shown in {time.monotonic() - began:.0f} s")
        wait_until(lambda: not gateway.sessions("--status", "open") and not left_over(gateway), 300, 0.5)
        session = gateway.sessions()[0]["id"]
        Account(gateway, api, folder).settle()
        look(gateway, api, session, count, folder)
        look_at_damage(gateway, api, session, count, folder)


@pytest.mark.slow
def test_session_of_40_mb_is_read_in_every_way_with_little_memory(target: PostgresServer, tmp_path: Path) -> None:
    large_session(target, tmp_path, 40, RECORDING_SEGMENT_SIZE=str(4 * MIB))


@pytest.mark.huge
def test_session_of_2_gb_is_read_in_every_way_with_little_memory(target: PostgresServer, tmp_path: Path) -> None:
    large_session(target, tmp_path, 2048)
