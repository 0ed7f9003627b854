"""Reader of the runbooks of a commit: it walks folders, without a checkout and without following links."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass

from dulwich.objects import Blob, Commit, ObjectID, Tree, parse_tree

from postern.domain.hook import FILE_OF, MAX_HOOK
from postern.domain.runbook import HOOK_FOLDERS, MARK, MAX_FILE, RunbookFile, Snapshot
from postern.errors import Invalid, Unavailable
from postern.integrations.git.messages import RepositoryLimits
from postern.integrations.git.packs import Objects

FOLDER, LINK, SUBMODULE = 0o040000, 0o120000, 0o160000
FILES = {0o100644, 0o100755, 0o100664}
MAX_PATH = 1_000  # characters
MAX_AUTHOR, MAX_MESSAGE = 300, 10_000  # characters
_NAME_BYTES = 20
_LFS = b"version https://git-lfs.github.com/spec/"  # prefix of files that stand for content in Git LFS


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """A file or folder. `problem` is the reason why its path is invalid."""

    path: str
    mode: int
    name: ObjectID
    problem: str


def commit_of(objects: Objects, name: ObjectID) -> Commit:
    """Return the commit. Raises Unavailable."""
    stored = objects.get(name)
    if stored is None:
        raise Unavailable("the server did not send the commit that it named")
    if stored[0] != Commit.type_num:
        raise Invalid("the branch does not point to a commit")
    commit = Commit()
    commit.set_raw_string(stored[1])
    return commit


def entries_of(objects: Objects, name: ObjectID) -> Iterator[tuple[bytes, int, ObjectID]]:
    """Yield name, mode and object of a folder's entries. Raises Unavailable."""
    stored = objects.get(name)
    if stored is None or stored[0] != Tree.type_num:
        raise Unavailable("the server did not send all folders of the repository")
    for base, mode, entry in parse_tree(stored[1], _NAME_BYTES):
        yield base, mode, ObjectID(entry)


def snapshot_of(objects: Objects, head: ObjectID, limits: RepositoryLimits) -> Snapshot:
    """Return the snapshot of a commit. Raises Invalid over a limit, Unavailable if something is missing."""
    commit = commit_of(objects, head)
    files: dict[str, RunbookFile] = {}
    total = paths = 0
    for entry in _walk(objects, commit.tree, limits):
        paths += len(entry.path.encode("utf-8", "replace"))
        if paths > limits.paths:
            raise Invalid(f"the paths of its runbooks exceed {limits.paths >> 20} MiB in total; shorten them")
        file = _file(objects, entry)
        total += len(entry.path) + len(file.text.encode() if file.text else b"")
        if total > limits.texts:
            raise Invalid(f"the runbooks of the repository exceed {limits.texts >> 20} MiB in total")
        if file.path in files:
            files[file.path] = RunbookFile(file.path, None, "the commit has two files with this path")
        else:
            files[file.path] = file
        if len(files) > limits.files:
            raise Invalid(f"the repository has more than {limits.files} runbooks")
    hooks = _hooks(files)
    return Snapshot(
        head.decode(),
        _clean(commit.author, commit.encoding)[:MAX_AUTHOR],
        _clean(commit.message, commit.encoding, lines=True)[:MAX_MESSAGE],
        tuple(files[path] for path in sorted(files)),
        hooks,
    )


def _hooks(files: dict[str, RunbookFile]) -> dict[str, str]:
    """Move hooks out of the files. An invalid one stays there with its error, and does not run."""
    hooks: dict[str, str] = {}
    for path, name in [(f"{folder}/{name}", name) for folder in reversed(HOOK_FOLDERS) for name in FILE_OF.values()]:
        file = files.get(path)
        if file is not None and file.text is not None and len(file.text.encode()) <= MAX_HOOK:
            hooks[name] = file.text
            del files[path]
        elif file is not None:
            error = file.error or f"it is larger than the limit for a session hook ({MAX_HOOK} bytes)"
            files[path] = RunbookFile(path, None, error)
            hooks.pop(name, None)
    return hooks


def _walk(objects: Objects, root: ObjectID, limits: RepositoryLimits) -> Iterator[TreeEntry]:
    """Yield every entry with the name of a runbook. Raises Invalid."""
    seen = 0
    ahead = [(root, "", 0, "")]
    while ahead:
        tree, folder, depth, above = ahead.pop()
        for base, mode, name in entries_of(objects, tree):
            seen += 1
            if seen > limits.entries:
                raise Invalid(f"the repository has more than {limits.entries} files and folders")
            name_text, problem = _step(base)
            path, problem = folder + name_text, above or problem
            if mode == FOLDER:
                if depth + 1 > limits.depth:
                    raise Invalid(f"the repository nests folders more than {limits.depth} levels deep")
                if base.lower() != b".git":
                    ahead.append((name, f"{path}/", depth + 1, problem))
            elif mode != SUBMODULE and MARK in name_text:
                yield TreeEntry(path[:MAX_PATH], mode, name, problem or _too_long(path))


def _step(base: bytes) -> tuple[str, str]:
    """Return one step of a path as it is shown, and why it is invalid."""
    try:
        text = base.decode()
    except UnicodeDecodeError:
        return base.decode(errors="replace"), "its path is not UTF-8; rename it"
    if text in ("", ".", ".."):
        return f"({text})", "its path contains an invalid name (empty, . or ..); rename it"
    if not text.isprintable() or "\\" in text or "/" in text:
        return (
            text.encode("unicode_escape").decode().replace("/", "\\x2f"),
            "its path has a name with a control character, a backslash or a slash; rename it",
        )
    return text, ""


def _too_long(path: str) -> str:
    return f"its path is longer than {MAX_PATH} characters" if len(path) > MAX_PATH else ""


def _file(objects: Objects, entry: TreeEntry) -> RunbookFile:
    if entry.problem:
        return RunbookFile(entry.path, None, entry.problem)
    if entry.mode == LINK:
        return RunbookFile(entry.path, None, "it is a symbolic link, which is not followed; put the file itself here")
    if entry.mode not in FILES:
        return RunbookFile(entry.path, None, f"it is not a regular file (mode {entry.mode:o})")
    stored = objects.get(entry.name)
    if stored is None or objects.is_large(entry.name) or len(stored[1]) > MAX_FILE:
        return RunbookFile(entry.path, None, f"it is larger than the limit for a runbook ({MAX_FILE} bytes)")
    kind, data = stored
    if kind != Blob.type_num:
        return RunbookFile(entry.path, None, "it is not a file")
    if data.startswith(_LFS):
        return RunbookFile(entry.path, None, "it is stored in Git LFS, which is not supported; store it in git itself")
    if data.startswith(BOM_UTF8):
        why = "it begins with a byte order mark, which would be a part of its first command; save it without one"
        return RunbookFile(entry.path, None, why)
    if b"\0" in data:
        return RunbookFile(entry.path, None, "it is a binary file; a runbook is text")
    try:
        return RunbookFile(entry.path, data.decode())
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return RunbookFile(entry.path, None, f"it is not UTF-8 (line {line}); save it in that encoding")


def _clean(text: bytes, encoding: bytes | None, *, lines: bool = False) -> str:
    try:
        read = text.decode(encoding.decode() if encoding else "utf-8", "replace")
    except (LookupError, UnicodeError, ValueError):
        read = text.decode(errors="replace")
    return "".join(
        character for character in read if character.isprintable() or (lines and character in "\n\t")
    ).strip()
