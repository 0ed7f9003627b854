"""Adding one file in a new commit: only the folders above it are rewritten."""

from __future__ import annotations

import re
import time

from dulwich.objects import Blob, Commit, ObjectID, ShaFile, Tree

from postern.domain.runbook import MARK, MAX_FILE
from postern.errors import Conflict, Invalid
from postern.integrations.git.messages import Writing
from postern.integrations.git.packs import Objects
from postern.integrations.git.remotes import BranchState, Remote
from postern.integrations.git.trees import FILES, FOLDER, MAX_MESSAGE, MAX_PATH, commit_of, entries_of

_FILE = 0o100644
_AUTHOR = re.compile(r"[^<>\x00-\x1f\x7f]{1,200} <[^<>\s]{1,200}>")


def check(writing: Writing) -> None:
    """Check the path and content. Raises Invalid."""
    steps = writing.path.split("/")
    if not writing.path.isprintable() or "\\" in writing.path or len(writing.path) > MAX_PATH:
        raise Invalid(
            f"the path must have at most {MAX_PATH} characters, without control characters and backslashes",
            field="path",
        )
    if any(step in ("", ".", "..") or step.lower() == ".git" or step != step.strip() for step in steps):
        raise Invalid("the path must lead from the root to a file, without empty names, ., .. and .git", field="path")
    if MARK not in steps[-1] or steps[-1].startswith(MARK):
        raise Invalid(f"the file name must contain {MARK!r}, for example restart{MARK}sh", field="path")
    if len(writing.content.encode()) > MAX_FILE or "\0" in writing.content:
        raise Invalid(f"a runbook must be text of at most {MAX_FILE} bytes", field="content")
    if not writing.message.strip() or len(writing.message) > MAX_MESSAGE or "\0" in writing.message:
        raise Invalid(f"the commit needs a message of at most {MAX_MESSAGE} characters", field="message")
    if not _AUTHOR.fullmatch(writing.author):
        raise Invalid('the author must have the form "Ada Example <ada@example.com>"', field="author")


def write(remote: Remote, branch: str, writing: Writing) -> str:
    """Write the commit and return its name. Raises Conflict, Invalid, Unavailable."""
    check(writing)
    state = remote.take(branch)
    root = commit_of(state.objects, state.head).tree if state.head else None
    blob = Blob.from_string(writing.content.encode())
    files: list[ShaFile] = [blob]
    tree = _write_file(state.objects, root, writing.path.encode().split(b"/"), blob, writing.overwrite, files)
    if tree.id == root and state.head:
        return state.head.decode()
    commit = _commit(state, tree, writing)
    remote.put(state, [*files, commit], commit.id)
    return commit.id.decode()


def _write_file(
    objects: Objects, name: ObjectID | None, steps: list[bytes], blob: Blob, overwrite: bool, new_objects: list[ShaFile]
) -> Tree:
    """Return the folder with the file in it; new objects are added to `new_objects`."""
    entries = {base: (mode, entry) for base, mode, entry in entries_of(objects, name)} if name else {}
    step = steps[0]
    mode, there = entries.get(step, (0, None))
    tree = Tree()
    for base, (kind, entry) in entries.items():
        tree.add(base, kind, entry)
    if len(steps) > 1:
        if there is not None and mode != FOLDER:
            raise Invalid(f"{step.decode()!r} in the path is not a folder in the repository", field="path")
        below = _write_file(objects, there, steps[1:], blob, overwrite, new_objects)
        tree.add(step, FOLDER, below.id)
    else:
        if there is not None and mode not in FILES:
            raise Invalid("the path is not a regular file in the repository; remove it first", field="path")
        if there is not None and not overwrite and there != blob.id:
            raise Conflict("this file already exists; set overwrite to replace it")
        tree.add(step, mode or _FILE, blob.id)
    new_objects.append(tree)
    return tree


def _commit(state: BranchState, tree: Tree, writing: Writing) -> Commit:
    commit = Commit()
    commit.tree = tree.id
    commit.parents = [state.head] if state.head else []
    commit.author = commit.committer = writing.author.encode()
    commit.author_time = commit.commit_time = int(time.time())
    commit.author_timezone = commit.commit_timezone = 0
    commit.encoding = b"UTF-8"
    commit.message = writing.message.strip().encode() + b"\n"
    return commit
