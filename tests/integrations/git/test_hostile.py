"""Git servers that hang, send garbage, or never stop."""

from __future__ import annotations

import asyncio
import gzip
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.integrations.git.conftest import LOOPBACK, children, repository
from tests.integrations.git.test_packs import BLOB, entry, pack
from tests.support.gits import Forge, git
from tests.support.processes import descendants, words
from tests.support.promises import PATIENT, within

from postern.domain.runbook import Repository
from postern.domain.secret import Secret
from postern.errors import Invalid, Unavailable
from postern.integrations.git import fetcher as fetcher_module
from postern.integrations.git.fetcher import GitFetcher
from postern.integrations.git.messages import RepositoryLimits, RepositoryPolicy

pytestmark = pytest.mark.ci

Make = Callable[..., GitFetcher]
PLAIN = RepositoryPolicy(("http",), networks=LOOPBACK)
SHORT = 4.0  # seconds: enough for a child to come to where it hangs, on a machine that is not busy
SHA = "1" * 40
ADVERTISED = "application/x-git-upload-pack-advertisement"
RESULT = "application/x-git-upload-pack-result"
PASSWORD = "password-of-ada"
READY = r"print('\0ready', flush=True)"
CUT = '{"commit": "1", "author": "", "message": "", "files": [["a", "", 90]], "hooks": []}\necho'


def packet(content: bytes) -> bytes:
    return b"%04x%s" % (len(content) + 4, content)


REFS = packet(b"# service=git-upload-pack\n") + b"0000"
HEAD = packet(f"{SHA} HEAD\0shallow side-band-64k symref=HEAD:refs/heads/main\n".encode())
MAIN = packet(f"{SHA} refs/heads/main\n".encode()) + b"0000"
SHALLOW = packet(f"shallow {SHA}\n".encode())
PACK = SHALLOW + b"0000" + packet(b"NAK\n")


def answer(content: bytes, kind: str = ADVERTISED, *, length: int | None = None, more: str = "") -> bytes:
    """`length`: what it says that it has."""
    said = f"Content-Length: {len(content) if length is None else length}\r\n" if length != -1 else ""
    return f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{said}{more}\r\n".encode() + content


def side(content: bytes, channel: int = 1) -> bytes:
    return b"".join(packet(bytes([channel]) + content[at : at + 60_000]) for at in range(0, len(content), 60_000))


@asynccontextmanager
async def server(
    *answers: bytes, then: bytes = b"", pause: float = 0.0, hangs: bool = False
) -> AsyncIterator[Repository]:
    """The first request gets the first answer, and so on. After the last one: `then` for ever, with
    `pause` seconds between, or nothing more."""
    left = list(answers)
    over = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(left.pop(0) if left else b"")
            await writer.drain()
            while not left and then:
                writer.write(then)
                await writer.drain()
                await asyncio.sleep(pause)
            if not left and hangs:
                await over.wait()
        writer.close()

    made = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        port = made.sockets[0].getsockname()[1]
        yield repository(f"http://localhost:{port}/a/b", git_user="ada", git_password=Secret(PASSWORD))
    finally:
        over.set()
        made.close()


@pytest.mark.parametrize(
    "answers",
    [
        [],
        [b"HTTP/1.1 200 OK\r\nContent-Type: "],
        [answer(REFS, length=9999)],
        [answer(REFS + HEAD + MAIN), b""],
        [answer(REFS + HEAD + MAIN), answer(PACK, RESULT, length=9999)],
        [answer(REFS + HEAD + MAIN), answer(PACK + side(b"PACK\0\0\0\2"), RESULT, length=9999)],
    ],
    ids=["at once", "in a header", "in the branches", "before the pack", "at the pack", "in the pack"],
)
async def test_hanging_server_times_out(fetcher: Make, answers: list[bytes]) -> None:
    async with server(*answers, hangs=True) as where, asyncio.timeout(within(10)):
        with pytest.raises(Unavailable, match="took longer than 4 seconds"):
            await fetcher(PLAIN, seconds=SHORT).fetch(where)


async def test_server_that_hangs_during_the_tls_handshake_times_out(fetcher: Make) -> None:
    async with server(hangs=True) as where, asyncio.timeout(within(10)):
        url = where.git_url.replace("http:", "https:")
        with pytest.raises(Unavailable):
            await fetcher(RepositoryPolicy(networks=LOOPBACK), seconds=SHORT).fetch(repository(url))


async def test_server_that_sends_byte_by_byte_times_out(fetcher: Make) -> None:
    async with server(answer(REFS + b"fff0", length=99_999), then=b"x", pause=0.1) as where:
        with pytest.raises(Unavailable, match="took longer than 4 seconds"):
            await fetcher(PLAIN, seconds=SHORT).fetch(where)


@pytest.mark.parametrize(
    ("answers", "then", "said"),
    [
        ([b"HTTP/1.1 200 OK\r\n"], b"X: " + b"x" * 100 + b"\r\n", "the HTTP request to .* failed"),
        ([b"HTTP/1.1 200 OK\r\nX: "], b"x" * 1000, "the HTTP request to .* failed"),
        ([b"HTTP/1.1 100 Continue\r\n\r\n"], b"HTTP/1.1 100 Continue\r\n\r\n" * 100, "took longer than"),
        ([answer(REFS + HEAD, length=-1)], packet(f"{SHA} refs/heads/{'x' * 900}\n".encode()) * 50, "sent more than"),
        ([answer(REFS + HEAD + MAIN), answer(PACK, RESULT, length=-1)], side(b"PACK" * 5000), "sent more than"),
        ([answer(REFS + HEAD + MAIN), answer(PACK, RESULT, length=-1)], side(b"x" * 5000, channel=2), "sent more than"),
        ([answer(REFS + HEAD + MAIN), answer(b"", RESULT, length=-1)], SHALLOW * 500, "sent more than"),
    ],
    ids=["headers", "header", "interim", "branches", "pack", "progress", "shallow"],
)
async def test_endless_answer_is_rejected(fetcher: Make, answers: list[bytes], then: bytes, said: str) -> None:
    policy = RepositoryPolicy(("http",), networks=LOOPBACK, limits=RepositoryLimits(received=4 << 20, memory=256 << 20))
    seconds = SHORT if "longer" in said else PATIENT
    async with server(*answers, then=then) as where:
        with pytest.raises((Invalid, Unavailable), match=said):
            await fetcher(policy, seconds=seconds).fetch(where)


@pytest.mark.parametrize(
    "answers",
    [
        [b"\0\1\2\x1b[2J" * 100],
        [b"SSH-2.0-OpenSSH_9.2\r\n"],
        [b"HTTP/1.1 999999 \x1b[31m\r\n\r\n"],
        [b"HTTP/1.1 500 \x1b[31mno\r\n\r\n"],
        [answer(b"<html>please log in</html>", "text/html")],
        [answer(b"")],
        [answer(b"zzzz" * 100)],
        [answer(REFS)],
        [answer(REFS + packet(b"\xff\xfe\x1b[31m refs/heads/main\0x\n") + b"0000")],
        [answer(REFS + packet(b"ERR go \x1b[31maway"))],
        [answer(gzip.compress(REFS + HEAD + MAIN), more="Content-Encoding: gzip\r\n")],
        [answer(REFS + HEAD + MAIN), answer(b"", "text/html")],
        [answer(REFS + HEAD + MAIN), answer(b"", RESULT)],
        [answer(REFS + HEAD + MAIN), answer(PACK, RESULT)],
        [answer(REFS + HEAD + MAIN), answer(PACK + side(b"PACK") + b"0000", RESULT)],
        [answer(REFS + HEAD + MAIN), answer(PACK + side(pack([])) + b"0000", RESULT)],
        [answer(REFS + HEAD + MAIN), answer(PACK + side(pack([entry(BLOB, b"x")])) + b"0000", RESULT)],
        [answer(REFS + HEAD + MAIN), answer(PACK + side(b"gone \x1b[31m", channel=3) + b"0000", RESULT)],
        [answer(REFS + HEAD + MAIN), answer(PACK + side(b"x", channel=7) + b"0000", RESULT)],
    ],
)
async def test_malformed_answer_is_reported_without_secrets(fetcher: Make, answers: list[bytes]) -> None:
    async with server(*answers) as where:
        with pytest.raises((Invalid, Unavailable)) as caught:
            await fetcher(PLAIN).fetch(where)
    assert caught.value.message.isprintable()
    assert PASSWORD not in caught.value.message
    assert "without a complete answer" not in caught.value.message


async def test_small_pack_of_a_huge_file_is_rejected_or_filtered(forge: Forge, fetcher: Make) -> None:
    bare = forge.repository()
    bare.commit({"bomb.runbook.sh": bytes(20 << 20), "a.runbook.sh": "a"})
    limits = RepositoryLimits(received=1 << 20, unpacked=8 << 20)
    reader = fetcher(RepositoryPolicy(networks=LOOPBACK, authority=str(forge.authority), limits=limits))
    where = repository(f"{forge.url}/team/runbooks.git")
    with pytest.raises(Invalid, match="unpacks to more than 8 MiB"):
        await reader.fetch(where)
    # A server that can leave large files out is asked to: then the rest of the repository is there.
    git(bare.path, "config", "uploadpack.allowFilter", "true")
    found = await reader.fetch(where)
    assert [(one.path, one.text) for one in found.files] == [("a.runbook.sh", "a"), ("bomb.runbook.sh", None)]
    assert "larger than" in found.files[1].error


async def test_repository_over_the_receive_limit_is_rejected(forge: Forge, fetcher: Make) -> None:
    forge.repository().commit({f"{number}.bin": os.urandom(400_000) for number in range(4)})
    policy = RepositoryPolicy(
        networks=LOOPBACK, authority=str(forge.authority), limits=RepositoryLimits(received=1 << 20)
    )
    with pytest.raises(Invalid, match="sent more than 1 MiB"):
        await fetcher(policy).fetch(repository(f"{forge.url}/team/runbooks.git"))


async def test_secrets_are_not_in_arguments_or_environment_of_the_child(fetcher: Make) -> None:
    async with server(hangs=True) as where:
        running = asyncio.create_task(fetcher(PLAIN).fetch(where))
        child = await _child()
        shown = " ".join(words(child)) + _environment(child)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert "postern.integrations.git.child" in shown
    assert PASSWORD not in shown


async def test_child_process_ends_with_its_cancelled_request_and_frees_its_slot(fetcher: Make) -> None:
    reader = fetcher(PLAIN, children=1)
    async with server(hangs=True) as hanging, server(answer(b"")) as quick:
        first = asyncio.create_task(reader.fetch(hanging))
        child = await _child()
        second = asyncio.create_task(reader.fetch(quick))
        await asyncio.sleep(0.2)
        assert children() == {child}  # the second one waits for its turn
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        with pytest.raises(Unavailable):
            await second


@pytest.mark.parametrize("task", ["fetch", "write"])
async def test_attack_one_organisation_cannot_occupy_all_child_processes(fetcher: Make, task: str) -> None:
    reader = fetcher(PLAIN, children=2)
    async with server(hangs=True) as hanging, server(answer(b"")) as quick:

        async def hang() -> None:
            if task == "fetch":
                await reader.fetch(hanging)
            else:
                await reader.write(hanging, "a.runbook.sh", "", "m", "a <a@example.com>", overwrite=False)

        running = [asyncio.create_task(hang()) for _ in range(5)]
        child = await _child()
        async with asyncio.timeout(PATIENT / 2):
            with pytest.raises(Unavailable, match=r"quick|ended|git"):
                await reader.fetch(quick)
        assert children() == {child}
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def test_event_loop_is_not_blocked_while_a_repository_is_read(forge: Forge, fetcher: Make) -> None:
    forge.repository().commit({f"{number}.runbook.sh": "x" * 3000 for number in range(5000)})
    gaps, over = [0.0], asyncio.Event()

    async def beat() -> None:
        while not over.is_set():
            began = time.monotonic()
            await asyncio.sleep(0.01)
            gaps.append(time.monotonic() - began)

    beating = asyncio.create_task(beat())
    policy = RepositoryPolicy(networks=LOOPBACK, authority=str(forge.authority))
    found = await fetcher(policy).fetch(repository(f"{forge.url}/team/runbooks.git"))
    over.set()
    await beating
    assert len(found.files) == 5000
    assert max(gaps) < within(0.5)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys\nwhile True: sys.stdout.write('x' * 65536)", "exceeds the limit"),
        (
            "import sys, time\nsys.stdout.write('x' * 500_000)\ntime.sleep(600)",
            "did not start within 4 s.*not contacted",
        ),
        (f"{READY}\nimport time\ntime.sleep(600)", "took longer than 4 seconds: its server hangs"),
        ("raise SystemExit", "cannot read repositories: .* ended with exit code 0 while it started$"),
        ("import os\nos.abort()", r"cannot read repositories: .* was ended by a signal \(Aborted\)"),
        (
            "import no_such",
            "ended with exit code 1 while it started: ModuleNotFoundError: No module named 'no_such'$",
        ),
        ("raise MemoryError", "ended with exit code 1 while it started: MemoryError$"),
        (READY, "ended with exit code 0 without a complete answer: the repository may need more"),
        (f"{READY}\nimport os\nos.abort()", r"ended by a signal \(Aborted\) without a complete answer"),
        (f"{READY}\nprint('no answer')", "without a complete answer"),
        (f"{READY}\nprint('[1]')", "without a complete answer"),
        (f"{READY}\nprint('{{}}')", "without a complete answer"),
        (f"{READY}\nprint({CUT!r})", "without a complete answer"),
    ],
)
async def test_child_process_that_misbehaves_is_an_error_and_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, said: str
) -> None:
    (tmp_path / "odd_child.py").write_text(program)
    monkeypatch.setattr(fetcher_module, "_CHILD", "odd_child")
    odd = GitFetcher(RepositoryPolicy(), {"PYTHONPATH": str(tmp_path)}, seconds=SHORT)
    async with asyncio.timeout(within(10)):
        with pytest.raises(Unavailable, match=said):
            await odd.fetch(repository("https://git.example/a/b"))
    assert not [one for one in descendants(os.getpid()) if "odd_child" in words(one)]


async def test_child_process_that_cannot_start_is_reported(monkeypatch: pytest.MonkeyPatch, fetcher: Make) -> None:
    where = repository("https://git.example/a/b")
    little = fetcher(RepositoryPolicy(limits=RepositoryLimits(memory=1 << 20)))
    with pytest.raises(Unavailable, match=r"^the gateway cannot read repositories: .* while it started: "):
        await little.fetch(where)
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(Unavailable, match="the process that reads repositories cannot be started: No such file"):
        await fetcher().fetch(where)


async def _child() -> int:
    async with asyncio.timeout(within(10)):
        while True:
            if found := children():
                return found.pop()
            await asyncio.sleep(0.02)


def _environment(child: int) -> str:
    return Path(f"/proc/{child}/environ").read_text()
