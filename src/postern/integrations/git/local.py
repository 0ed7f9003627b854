"""A repository on this machine, in a folder that a setting names: read and written in place, and nothing in it run."""

from __future__ import annotations

import os
from pathlib import Path

from dulwich.errors import NotGitRepository
from dulwich.objects import ObjectID, ShaFile
from dulwich.repo import Repo

from postern.errors import Invalid, Unavailable
from postern.integrations.git.git_places import FOLDERS, RepositoryPlace, is_inside
from postern.integrations.git.packs import Object
from postern.integrations.git.remotes import HEAD, Taken, chosen, moved


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
        return False  # its size tells


class Local:
    def __init__(self, place: RepositoryPlace, folders: tuple[str, ...]) -> None:
        self._place = place
        self._folders = folders
        self._repository: Repo | None = None

    def take(self, branch: str) -> Taken:
        repository = self._open()
        refs = repository.refs.as_dict()
        links = {name: value for name, value in repository.refs.get_symrefs().items() if name == HEAD}
        ref, head = chosen(refs, links, branch)
        return Taken(ref, head, StoredObjects(repository))

    def put(self, taken: Taken, objects: list[ShaFile], commit: ObjectID) -> None:
        repository = self._open()
        if not repository.bare:
            raise Invalid("the repository has files checked out beside it, which would fall behind; use a bare one")
        repository.object_store.add_objects([(one, None) for one in objects])
        refs = repository.refs
        done = refs.set_if_equals(taken.ref, taken.head, commit) if taken.head else refs.add_if_new(taken.ref, commit)
        if not done:
            raise moved()

    def close(self) -> None:
        if self._repository is not None:
            self._repository.close()

    def _open(self) -> Repo:
        """Raises Invalid where something of it is elsewhere, Unavailable where it is none."""
        if self._repository is None:
            path = Path(self._place.path)
            self._check(path)
            try:
                self._repository = Repo(str(path))
            except (NotGitRepository, OSError):
                raise Unavailable("there is no git repository at this path, or it cannot be read") from None
        return self._repository

    def _check(self, path: Path) -> None:
        """A repository may say that parts of it are elsewhere: none of these is followed out of the folders."""
        control = path / ".git" if (path / ".git").exists() else path
        aside = [control / "commondir", control / "objects/info/alternates"]
        parts = [control, control / "objects", control / "objects/pack", control / "refs", control / "packed-refs"]
        if control.is_file() or any(one.exists() for one in aside) or not all(self._is_inside(one) for one in parts):
            raise Invalid(f"parts of the repository are elsewhere; it must be whole, in a folder that {FOLDERS} names")

    def _is_inside(self, path: Path) -> bool:
        return not os.path.lexists(path) or is_inside(path, self._folders)
