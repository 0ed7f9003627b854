"""Requests to a child and its answers: a line of JSON, and the texts that the line names, in order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID

from postern.domain.runbook import Repository, RunbookFile, Snapshot
from postern.domain.secret import Secret
from postern.errors import Conflict, Invalid, PosternError, Unavailable

# Written once the child is ready, before it connects; until then it can only report why it is not.
READY = b"\0ready\n"
_LINE = 32 << 20  # bytes of the line: paths and errors of the maximum number of files
_KINDS: dict[str, type[PosternError]] = {kind.__name__: kind for kind in (Conflict, Invalid, Unavailable)}
_SECRETS = ("git_password", "ssh_key", "ssh_keypass")
_TEXTS = ("git_url", "name", "git_user", "ssh_user", "ssh_known_hosts", "branch")


@dataclass(frozen=True, slots=True)
class RepositoryLimits:
    """Limits of one repository. Sizes are in bytes; `unpacked` covers all objects, `entries` all folders, `paths` and
    `texts` all runbooks."""

    received: int = 64 << 20
    unpacked: int = 256 << 20
    objects: int = 200_000
    entries: int = 500_000
    depth: int = 64
    files: int = 10_000
    paths: int = 2 << 20
    texts: int = 32 << 20
    memory: int = 1 << 30

    @property
    def answer(self) -> int:
        return _LINE + self.texts


@dataclass(frozen=True, slots=True)
class RepositoryPolicy:
    """The allowed locations. `networks`: private ones, including loopback; `folders`: for file://; `authority`: a file
    of PEM certificates to trust besides the system's."""

    schemes: tuple[str, ...] = ("https", "ssh")
    networks: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    authority: str = ""
    limits: RepositoryLimits = field(default_factory=RepositoryLimits)


@dataclass(frozen=True, slots=True)
class Writing:
    path: str
    content: str
    message: str
    author: str
    overwrite: bool


@dataclass(frozen=True, slots=True)
class GitRequest:
    """A request. `task` is check, fetch or write. `seconds` is the child's time."""

    task: str
    repository: Repository
    policy: RepositoryPolicy
    seconds: float
    writing: Writing | None = None

    def encode(self) -> bytes:
        repository = {name: getattr(self.repository, name) for name in _TEXTS}
        repository |= {name: getattr(self.repository, name).reveal() for name in _SECRETS}
        return json.dumps(
            {
                "task": self.task,
                "org_id": str(self.repository.org_id),
                "repository": repository,
                "policy": asdict(self.policy),
                "seconds": self.seconds,
                "writing": asdict(self.writing) if self.writing else None,
            }
        ).encode()


def decode_request(data: bytes) -> GitRequest:
    read: dict[str, Any] = json.loads(data)
    repository: dict[str, Any] = read["repository"]
    repository = repository | {name: Secret(repository[name]) for name in _SECRETS}
    policy: dict[str, Any] = read["policy"]
    policy |= {name: tuple(policy[name]) for name in ("schemes", "networks", "folders")}
    policy["limits"] = RepositoryLimits(**policy["limits"])
    return GitRequest(
        read["task"],
        Repository(org_id=UUID(read["org_id"]), **repository),
        RepositoryPolicy(**policy),
        read["seconds"],
        Writing(**read["writing"]) if read["writing"] else None,
    )


def answer(outline: Mapping[str, Any], texts: bytes = b"") -> bytes:
    return json.dumps(outline).encode() + b"\n" + texts


def failure(error: PosternError) -> bytes:
    return answer({"error": type(error).__name__, "message": error.message, "field": error.field})


def of_snapshot(snapshot: Snapshot) -> bytes:
    texts: list[bytes] = []
    files: list[tuple[str, str, int | None]] = []
    for file in snapshot.files:
        text = None if file.text is None else file.text.encode()
        files.append((file.path, file.error, None if text is None else len(text)))
        texts.append(text or b"")
    hooks = {name: text.encode() for name, text in snapshot.hooks.items()}
    outline = {
        "commit": snapshot.commit,
        "author": snapshot.author,
        "message": snapshot.message,
        "files": files,
        "hooks": [(name, len(text)) for name, text in hooks.items()],
    }
    return answer(outline, b"".join([*texts, *hooks.values()]))


def snapshot_of(data: bytes) -> Snapshot:
    """Parse a snapshot. Raises the child's error; ValueError and its like for an invalid answer."""
    outline, texts = outline_of(data)
    at = 0

    def text(length: int) -> str:
        nonlocal at
        at += length
        return texts[at - length : at].decode()

    files = tuple(
        RunbookFile(path, None if length is None else text(length), error) for path, error, length in outline["files"]
    )
    hooks = {name: text(length) for name, length in outline["hooks"]}
    if at != len(texts):
        raise ValueError("not all of its texts")
    return Snapshot(outline["commit"], outline["author"], outline["message"], files, hooks)


def outline_of(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the line and what follows it. Raises the child's error, ValueError."""
    line, ended, rest = data.partition(b"\n")
    if not ended:
        raise ValueError("no whole line")
    outline: dict[str, Any] = json.loads(line)
    if "error" in outline:
        raise _KINDS.get(outline["error"], Unavailable)(outline["message"], field=outline["field"])
    return outline, rest
