"""The tasks of the child process for git.

A repository on this machine, in a folder that a setting names, is read and written in place; nothing in it is run.
"""

from __future__ import annotations

import os
from pathlib import Path

from dulwich.client import HTTPUnauthorized, SSHGitClient
from dulwich.errors import GitProtocolError, HangupException, NotGitRepository, SendPackError
from dulwich.file import FileLocked
from dulwich.objects import ObjectID, ShaFile
from dulwich.repo import Repo

from postern.domain.runbook import Repository
from postern.errors import Invalid, PosternError, Unavailable
from postern.integrations.git import git_writing, messages, trees
from postern.integrations.git.git_http import HttpClient
from postern.integrations.git.git_places import FOLDERS, CheckedRoute, RepositoryPlace, is_inside, place_of
from postern.integrations.git.meter import Meter
from postern.integrations.git.packs import Object
from postern.integrations.git.remotes import HEAD, BranchState, ByDulwich, Remote, branch_conflict, choose_branch


class StoredObjects:
    """The objects of a repository on disk."""

    def __init__(self, repository: Repo) -> None:
        self._store = repository.object_store

    def get(self, name: ObjectID) -> Object | None:
        try:
            kind, data = self._store.get_raw(name)
        except KeyError:
            return None
        return kind, data

    def is_large(self, name: ObjectID) -> bool:
        return False  # the size tells


class Local:
    def __init__(self, place: RepositoryPlace, folders: tuple[str, ...]) -> None:
        self._place = place
        self._folders = folders
        self._repository: Repo | None = None

    def take(self, branch: str) -> BranchState:
        repository = self._open()
        refs = repository.refs.as_dict()
        links = {name: value for name, value in repository.refs.get_symrefs().items() if name == HEAD}
        ref, head = choose_branch(refs, links, branch)
        return BranchState(ref, head, StoredObjects(repository))

    def put(self, state: BranchState, objects: list[ShaFile], commit: ObjectID) -> None:
        repository = self._open()
        if not repository.bare:
            raise Invalid("the repository has a working tree, which would become outdated; use a bare repository")
        repository.object_store.add_objects([(file, None) for file in objects])
        refs = repository.refs
        done = refs.set_if_equals(state.ref, state.head, commit) if state.head else refs.add_if_new(state.ref, commit)
        if not done:
            raise branch_conflict()

    def close(self) -> None:
        if self._repository is not None:
            self._repository.close()

    def _open(self) -> Repo:
        """Open the repository. Raises Invalid if a part of it is elsewhere, Unavailable if it is not a repository."""
        if self._repository is None:
            path = Path(self._place.path)
            self._check(path)
            try:
                self._repository = Repo(str(path))
            except (NotGitRepository, OSError):
                raise Unavailable("there is no git repository at this path, or it cannot be read") from None
        return self._repository

    def _check(self, path: Path) -> None:
        """Check that the repository has no parts elsewhere: such references are never followed out of the folders."""
        control = path / ".git" if (path / ".git").exists() else path
        aside = [control / "commondir", control / "objects/info/alternates"]
        parts = [control, control / "objects", control / "objects/pack", control / "refs", control / "packed-refs"]
        if (
            control.is_file()
            or any(reference.exists() for reference in aside)
            or not all(self._is_inside(part) for part in parts)
        ):
            raise Invalid(
                f"parts of the repository are elsewhere; it must be completely in a folder that {FOLDERS} names"
            )

    def _is_inside(self, path: Path) -> bool:
        return not os.path.lexists(path) or is_inside(path, self._folders)


OF_TOKENS = "oauth2"  # the user name for a token alone: GitLab requires it, GitHub and Gitea ignore it


def do(request: messages.GitRequest) -> bytes:
    """Run a task. Raises PosternError."""
    repository, policy = request.repository, request.policy
    place = place_of(repository.git_url, policy)
    try:
        if request.task == "check":
            if place.scheme == "ssh":
                _check_ssh(repository, place)
            return messages.answer({})
        remote = _remote(place, repository, request)
        if request.task == "write" and request.writing is not None:
            return messages.answer({"commit": git_writing.write(remote, repository.branch, request.writing)})
        state = remote.take(repository.branch)
        if state.head is None:
            raise Invalid("the repository is empty; commit something to it first")
        return messages.of_snapshot(trees.snapshot_of(state.objects, state.head, policy.limits))
    except (PosternError, MemoryError):
        raise
    except (GitProtocolError, HTTPUnauthorized, HangupException, NotGitRepository, SendPackError) as error:
        raise Unavailable(f"{place.authority} rejected the git request: {str(error)[:300]!r}") from None
    except FileLocked:
        raise branch_conflict() from None
    except OSError as error:
        raise Unavailable(f"the repository cannot be read: {error.strerror or type(error).__name__}") from None
    except Exception as error:  # dulwich raises many errors for bytes that are not a pack, object or packet
        raise Unavailable(f"the repository does not have valid git data ({type(error).__name__})") from None


def _remote(place: RepositoryPlace, repository: Repository, request: messages.GitRequest) -> Remote:
    policy = request.policy
    if place.scheme == "file":
        return Local(place, policy.folders)
    way, meter = CheckedRoute(place, policy, request.seconds), Meter(policy.limits.received)
    if place.scheme == "ssh":
        from postern.integrations.git.git_ssh import Ssh

        vendor = Ssh(place, way, meter, repository, request.seconds)
        return ByDulwich(SSHGitClient(place.host, vendor=vendor, thin_packs=False), place.path, policy.limits)
    password = repository.git_password.reveal()
    user = repository.git_user or OF_TOKENS
    return ByDulwich(HttpClient(place, way, meter, policy.authority, user, password), place.path, policy.limits)


def _check_ssh(repository: Repository, place: RepositoryPlace) -> None:
    """Check the settings for ssh. Raises Invalid."""
    from postern.integrations.git.git_ssh import key_of, known_hosts_of

    key_of(repository)
    known_hosts_of(repository, place)
