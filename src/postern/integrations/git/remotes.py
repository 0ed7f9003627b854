"""A remote repository by any transport: reading its newest commit with its files, and adding a commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Protocol

from dulwich.client import AbstractHttpGitClient, TraditionalGitClient
from dulwich.objects import ObjectID, ShaFile
from dulwich.pack import pack_objects_to_data
from dulwich.refs import Ref

from postern.domain.runbook import MAX_FILE
from postern.errors import Conflict, Invalid, Unavailable
from postern.integrations.git.messages import RepositoryLimits
from postern.integrations.git.packs import Objects, PackObjects, unpack

HEAD, BRANCHES = Ref(b"HEAD"), b"refs/heads/"
DEFAULTS = ("main", "master")


@dataclass(frozen=True, slots=True)
class BranchState:
    """The state of a branch. `ref` is the branch, `head` its commit: None in an empty repository."""

    ref: Ref
    head: ObjectID | None
    objects: Objects


class Remote(Protocol):
    def take(self, branch: str) -> BranchState:
        """Fetch a branch; an empty name is the repository's default. Raises Invalid, Unavailable."""

    def put(self, state: BranchState, objects: list[ShaFile], commit: ObjectID) -> None:
        """Push a commit. Raises Conflict when the branch has moved meanwhile, Invalid, Unavailable."""


def choose_branch(refs: Mapping[Ref, ObjectID], links: Mapping[Ref, Ref], branch: str) -> tuple[Ref, ObjectID | None]:
    """Return the branch and its commit. Raises Invalid."""
    if branch:
        ref = Ref(BRANCHES + branch.encode())
        if ref not in refs and any(name.startswith(BRANCHES) for name in refs):
            raise Invalid(f"the repository has no branch {branch!r}", field="branch")
        return ref, refs.get(ref)
    default = links.get(HEAD)
    if default is not None and default.startswith(BRANCHES) and (default in refs or not refs):
        return default, refs.get(default)
    usual = [Ref(BRANCHES + name.encode()) for name in DEFAULTS]
    alike = [name for name in [*usual, *sorted(refs)] if name.startswith(BRANCHES) and name in refs]
    if HEAD in refs:
        return next((name for name in alike if refs[name] == refs[HEAD]), usual[0]), refs[HEAD]
    default = next((name for name in usual if name in refs), None)
    if default is None and alike:
        raise Invalid("the repository has no default branch; set a branch", field="branch")
    return default or usual[0], refs.get(default) if default else None


class ByDulwich:
    """A remote over HTTP or SSH."""

    def __init__(
        self, client: AbstractHttpGitClient | TraditionalGitClient, path: str, limits: RepositoryLimits
    ) -> None:
        self._client: Any = client
        self._path = path
        self._limits = limits

    def take(self, branch: str) -> BranchState:
        pack = BytesIO()

        def wants(refs: Mapping[Ref, ObjectID], depth: int | None = None) -> list[ObjectID]:
            head = choose_branch(refs, {}, branch)[1]
            return [head] if head is not None else []

        result = self._client.fetch_pack(
            self._path,
            wants,
            _Nothing(),
            pack.write,
            progress=lambda _: None,
            depth=1,
            ref_prefix=[HEAD, BRANCHES],
            # Servers that can omit larger files do so. Others send them, and they count.
            filter_spec=b"blob:limit=%d" % (MAX_FILE + 1),
        )
        if result.object_format not in (None, "sha1"):
            raise Invalid("the repository uses SHA-256 for its object names, which is not supported")
        refs = {name: value for name, value in result.refs.items() if value is not None}
        ref, head = choose_branch(refs, result.symrefs, branch)
        return BranchState(ref, head, unpack(pack.getvalue(), self._limits) if head else PackObjects({}, frozenset()))

    def put(self, state: BranchState, objects: list[ShaFile], commit: ObjectID) -> None:
        def change(refs: Mapping[Ref, ObjectID]) -> dict[Ref, ObjectID]:
            if refs.get(state.ref) != state.head:
                raise branch_conflict()
            return {state.ref: commit}

        def data(*_: object, **__: object) -> tuple[int, Iterator[Any]]:
            return pack_objects_to_data([(file, None) for file in objects], deltify=False)

        done = self._client.send_pack(self._path, change, data, progress=lambda _: None)
        if done.ref_status is None:
            raise Unavailable("the server did not confirm the commit; check the repository")
        refused = done.ref_status.get(state.ref)
        if refused is not None:
            raise refusal(str(refused))


class _Nothing:
    """A local repository without any objects."""

    shallow: frozenset[bytes] = frozenset()

    def __next__(self) -> None:
        return None

    def ack(self, sha: bytes) -> None: ...

    def nak(self) -> None: ...


def branch_conflict() -> Conflict:
    return Conflict("the branch was changed at the same time; read the current state, and try again")


def refusal(words: str) -> Conflict | Invalid:
    """Return the error for the server's message about a branch."""
    if any(
        phrase in words for phrase in ("fetch first", "non-fast-forward", "stale info", "failed to", "cannot lock ref")
    ):
        return branch_conflict()
    return Invalid(f"the server rejected the commit: {words!r}; the branch may be protected")
