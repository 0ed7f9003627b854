"""Writes what the gateway has into a folder: FOLDER/KIND/NAME.yaml.

Every file begins with a line that says who wrote it. Files without this line are never overwritten or deleted, and
symbolic links are not followed.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from postern.cli.configuration.gateway_state import GatewayResource, GatewayState
from postern.cli.configuration.yaml_files import write_document
from postern.domain.text import one_line
from postern.errors import Conflict, Invalid

MARK = "# Written by `postern export`, which overwrites this file."
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.@+")
_MAX_NAME = 150  # characters


def resources_to_export(state: GatewayState, kinds: Iterable[str], manager: str | None) -> list[GatewayResource]:
    """Return the resources to export, of these kinds, in the order in which they can be created."""
    state.load(kinds)
    order = list(state.kinds.kinds)
    chosen = set(kinds)
    resources = [
        resource
        for (kind, _), resource in state.resources.items()
        if kind in chosen and not resource.is_left_out and (manager is None or resource.managed_by == manager)
    ]
    return sorted(resources, key=lambda resource: (order.index(resource.kind.kind), resource.name))


def document_of(state: GatewayState, resource: GatewayResource) -> dict[str, Any]:
    document: dict[str, Any] = {"kind": resource.kind.kind, "name": resource.name}
    spec = state.spec(resource)
    return document | ({"spec": spec} if spec else {})


def stream(state: GatewayState, resources: Iterable[GatewayResource]) -> str:
    """Return all documents as one text."""
    return "---\n".join(write_document(document_of(state, resource)) for resource in resources)


def write_files(
    folder: Path, state: GatewayState, resources: Iterable[GatewayResource], *, clean: bool
) -> Mapping[str, int]:
    """Write the files; return how many were written, unchanged and deleted. `clean` deletes files of earlier exports
    that are not part of this one. Raises Conflict for a file or folder that an export did not make."""
    counts: Counter[str] = Counter()
    resources = list(resources)
    paths = _paths(folder, resources)
    _make_folder(folder)
    for resource in resources:
        path = paths[resource.kind.kind, resource.name]
        _make_folder(path.parent)
        content = f"{MARK}\n{write_document(document_of(state, resource))}"
        counts["written" if _write(path, content) else "unchanged"] += 1
    if clean:
        counts["deleted"] = _delete_others(
            folder, {kind.folder for kind in state.kinds.kinds.values()}, set(paths.values())
        )
    return counts


def _paths(folder: Path, resources: Iterable[GatewayResource]) -> dict[tuple[str, str], Path]:
    """Return a file for each. Names that differ in case only, or are long, get a part of their hash."""
    resources = list(resources)
    uses = Counter((resource.kind.folder, _file_name(resource.name).casefold()) for resource in resources)
    paths = {}
    for resource in resources:
        name = _file_name(resource.name)
        if uses[resource.kind.folder, name.casefold()] > 1 or len(name) > _MAX_NAME:
            name = f"{name[:_MAX_NAME]}~{hashlib.sha256(resource.name.encode()).hexdigest()[:12]}"
        paths[resource.kind.kind, resource.name] = folder / resource.kind.folder / f"{name}.yaml"
    return paths


def _file_name(name: str) -> str:
    """Return the name with other characters as %XX, and a dot at its start, so that it stays in its folder."""
    text = "".join(
        character if character in _PLAIN else "".join(f"%{byte:02X}" for byte in character.encode())
        for character in name
    )
    return f"%2E{text[1:]}" if text.startswith(".") else text


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(exist_ok=True)
        if not stat.S_ISDIR(path.lstat().st_mode):
            raise Conflict(f"{one_line(str(path))} is not a folder; an export does not follow symbolic links")
    except FileNotFoundError:
        raise Invalid(f"the folder {one_line(str(path.parent))} does not exist") from None
    except OSError as error:
        raise Invalid(f"{one_line(str(path))}: {error.strerror}") from None


def _write(path: Path, content: str) -> bool:
    """Write the file as a whole; return False if it has this content already."""
    before = _read_own(path)
    if before == content:
        return False
    handle, temporary = tempfile.mkstemp(prefix=".export-", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return True


def _read_own(path: Path) -> str | None:
    """Return what an earlier export wrote here; None if there is no file. Raises Conflict for anything else."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Conflict(f"{one_line(str(path))} cannot be overwritten: {error.strerror}") from None
    with os.fdopen(handle, encoding="utf-8", errors="replace") as file:
        is_file = stat.S_ISREG(os.fstat(handle).st_mode)
        content = file.read() if is_file else ""
    if not content.startswith(f"{MARK}\n"):
        raise Conflict(f"{one_line(str(path))} was not written by an export; move it, or export to a different folder")
    return content


def _delete_others(folder: Path, names: set[str], written: set[Path]) -> int:
    deleted = 0
    for name in sorted(names):
        below = folder / name
        if not below.is_dir() or below.is_symlink():
            continue
        for path in sorted(below.glob("*.yaml")):
            if path not in written and _is_own(path):
                path.unlink()
                deleted += 1
    return deleted


def _is_own(path: Path) -> bool:
    try:
        return _read_own(path) is not None
    except Conflict:
        return False
