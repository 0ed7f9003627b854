"""The parent's side: one child process per task, with limits of time and answer."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from base64 import b64encode
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TypeVar
from uuid import UUID

from postern.domain.runbook import Repository, Snapshot
from postern.errors import PosternError, Unavailable
from postern.integrations.git.git_places import check_settings
from postern.integrations.git.messages import READY, GitRequest, RepositoryPolicy, Writing, outline_of, snapshot_of
from postern.process import PARENT_PID

SECONDS = 30.0
CHILDREN = 4  # concurrent children; others wait
_PATIENCE = 60.0  # seconds to wait for a child's turn
_CHILD = "postern.integrations.git.child"
# The child's whole environment: no proxy, no git settings, no secret.
_KEPT = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR")
_CHUNK = 1 << 16
_MAX_WORDS = 600  # characters of an error
_HIDDEN = 4  # characters of the shortest secret that is removed from error texts

T = TypeVar("T")


class _Turns:
    """Slots: one organisation can use half of them, and at least one."""

    def __init__(self, children: int) -> None:
        self.all = asyncio.Semaphore(children)
        self.of: defaultdict[UUID, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore((children + 1) // 2))


class GitFetcher:
    """A `Fetcher` (services/runbooks/fetching.py). `seconds` is the maximum time of a task, once it has begun."""

    def __init__(
        self,
        policy: RepositoryPolicy,
        environment: Mapping[str, str],
        *,
        seconds: float = SECONDS,
        children: int = CHILDREN,
    ) -> None:
        self._policy = policy
        self._environment = {name: environment[name] for name in _KEPT if name in environment}
        self._seconds = seconds
        self._turns = _Turns(children)
        self._checks = _Turns(children)  # separate slots, because checks wait for no server

    async def check(self, repository: Repository) -> None:
        """Check a repository's settings. Raises Invalid, Unavailable."""
        if check_settings(repository, self._policy).scheme == "ssh":
            # In a child, because a key with a passphrase determines the work of decrypting it.
            await self._do(GitRequest("check", repository, self._policy, self._seconds), outline_of)

    async def fetch(self, repository: Repository) -> Snapshot:
        """Read a repository. Raises Invalid, Unavailable."""
        check_settings(repository, self._policy)
        return await self._do(GitRequest("fetch", repository, self._policy, self._seconds), snapshot_of)

    async def write(
        self, repository: Repository, path: str, content: str, message: str, author: str, *, overwrite: bool
    ) -> str:
        """Commit a file. Raises Conflict, Invalid, Unavailable."""
        check_settings(repository, self._policy)
        writing = Writing(path, content, message, author, overwrite)
        outline, _ = await self._do(GitRequest("write", repository, self._policy, self._seconds, writing), outline_of)
        return str(outline["commit"])

    async def _do(self, request: GitRequest, read: Callable[[bytes], T]) -> T:
        try:
            async with self._turn(request):
                data, code = await self._ask(request)
            return await asyncio.to_thread(_parse_answer, data, code, read)
        except PosternError as error:
            raise type(error)(_redact(error.message, request.repository), field=error.field) from None

    @asynccontextmanager
    async def _turn(self, request: GitRequest) -> AsyncIterator[None]:
        """Take a slot. Raises Unavailable when none becomes free."""
        turns = self._checks if request.task == "check" else self._turns
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(_PATIENCE):
                    await stack.enter_async_context(turns.of[request.repository.org_id])
                    await stack.enter_async_context(turns.all)
            except TimeoutError:
                raise Unavailable("the gateway is busy reading other repositories; try again later") from None
            yield

    async def _ask(self, request: GitRequest) -> tuple[bytes, int]:
        """Run a child. Return its output and its exit code; negative for a signal."""
        process, data = await self._start(), bytearray()
        try:
            async with asyncio.timeout(self._seconds):
                await _exchange(process, request.encode(), data, self._policy.limits.answer)
                return bytes(data), await process.wait()
        except TimeoutError:
            raise Unavailable(_too_slow(self._seconds, has_begun=READY in data)) from None
        finally:
            await _end(process)

    async def _start(self) -> Process:
        fixed = {"HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", PARENT_PID: str(os.getpid())}
        try:
            return await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                _CHILD,
                stdin=PIPE,
                stdout=PIPE,
                stderr=STDOUT,
                cwd="/",
                start_new_session=True,
                env={**self._environment, **fixed},
            )
        except OSError as error:
            raise Unavailable(f"the process that reads repositories cannot be started: {error.strerror}") from None


async def _exchange(process: Process, request: bytes, answer: bytearray, most: int) -> None:
    """Exchange request and answer; `answer` has what arrived. Raises Unavailable when the child sends too much."""
    if process.stdin is None or process.stdout is None:
        raise Unavailable("the process that reads repositories cannot be started")
    with suppress(ConnectionError):  # it ended early; its output is its answer
        process.stdin.write(request)
        await process.stdin.drain()
    process.stdin.close()
    while data := await process.stdout.read(_CHUNK):
        answer += data
        if len(answer) > most:
            raise Unavailable(f"the content of the repository exceeds the limit of {most >> 20} MiB")


def _too_slow(seconds: float, *, has_begun: bool) -> str:
    if has_begun:
        return f"reading the repository took longer than {seconds:g} seconds: its server hangs, or it is too large"
    return (
        f"the process that reads repositories did not start within {seconds:g} seconds, so the repository's server was "
        "not contacted: this machine is overloaded; try again later"
    )


async def _end(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    # Its remaining output must be read: asyncio sees the end of a process only after that of its pipes.
    while process.stdout is not None and await process.stdout.read(_CHUNK):
        pass
    await process.wait()


def _parse_answer(output: bytes, code: int, read: Callable[[bytes], T]) -> T:
    """Parse the child's answer. Raises its error, and Unavailable without a whole answer."""
    error_output, ready, answer = output.partition(READY)
    if not ready:
        last = error_output.decode(errors="replace").strip().rpartition("\n")[2]
        raise Unavailable(
            f"the gateway cannot read repositories: the process for that {_describe_exit(code)} while it started"
            + (f": {last}" if last else "")
        )
    try:
        return read(answer)
    except (ValueError, KeyError, TypeError):
        raise Unavailable(
            f"the process that read the repository {_describe_exit(code)} without a complete answer: the repository "
            "may need more memory or processor time than is allowed"
        ) from None


def _describe_exit(code: int) -> str:
    return f"was ended by a signal ({signal.strsignal(-code)})" if code < 0 else f"ended with exit code {code}"


def _redact(message: str, repository: Repository) -> str:
    """Return an error text without what a remote could have put into it: our secrets, control characters, a flood."""
    secrets = [value.reveal() for value in (repository.git_password, repository.ssh_key, repository.ssh_keypass)]
    pair = f"{repository.git_user or 'oauth2'}:{secrets[0]}"
    for secret in [b64encode(pair.encode()).decode(), *secrets]:
        if len(secret) >= _HIDDEN:
            message = message.replace(secret, "***")
    printable = "".join(character if character.isprintable() else " " for character in message)
    return printable if len(printable) <= _MAX_WORDS else printable[:_MAX_WORDS] + "…"
