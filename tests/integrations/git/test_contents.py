"""Possible contents of a commit: each invalid file is reported, and the valid ones are read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest
from tests.integrations.git.conftest import repository
from tests.support.gits import Bare, tree

from postern.domain.hook import MAX_HOOK
from postern.domain.runbook import CLOSE_HOOK, HOOK_FOLDERS, MAX_FILE, OPEN_HOOK, RunbookFile, Snapshot
from postern.errors import Invalid, PosternError
from postern.integrations.git.fetcher import GitFetcher
from postern.integrations.git.messages import RepositoryLimits, RepositoryPolicy

pytestmark = pytest.mark.ci

GOOD = RunbookFile("good.runbook.sh", "echo good\n")


@pytest.fixture
def bare(tmp_path: Path) -> Bare:
    return Bare.made(tmp_path / "allowed" / "a.git")


Read = Callable[..., Awaitable[Snapshot]]


@pytest.fixture
def read(fetcher: Callable[..., GitFetcher], bare: Bare) -> Read:
    async def of(**limits: int) -> Snapshot:
        policy = RepositoryPolicy(("file",), folders=(str(bare.path.parent),), limits=RepositoryLimits(**limits))
        return await fetcher(policy).fetch(repository(f"file://{bare.path}"))

    return of


def by_path(snapshot: Snapshot) -> Mapping[str, RunbookFile]:
    assert len({one.path for one in snapshot.files}) == len(snapshot.files)
    return {one.path: one for one in snapshot.files}


@pytest.mark.parametrize(
    ("name", "content", "mode", "words"),
    [
        ("a.runbook.sh", b"\x7fELF\0\0", "100644", "binary"),
        ("a.runbook.sh", b"\xef\xbb\xbfset -e\n", "100644", "byte order mark"),
        ("a.runbook.sh", "set -e\n".encode("utf-16"), "100644", "binary"),
        ("a.runbook.sh", "größe\n".encode("latin-1"), "100644", "not UTF-8 (line 1)"),
        ("a.runbook.sh", b"fine\nfine\n\xff\xfe\n", "100644", "not UTF-8 (line 3)"),
        ("a.runbook.sh", b"\xed\xa0\x80", "100644", "not UTF-8"),
        ("a.runbook.sh", b"x" * (MAX_FILE + 1), "100644", "larger than the limit for a runbook"),
        ("a.runbook.sh", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "100644", "Git LFS"),
        ("a.runbook.sh", b"/etc/passwd", "120000", "symbolic link"),
        ("a.runbook.sh", b"../../../etc/passwd", "120000", "symbolic link"),
    ],
)
async def test_runbook_file_that_is_not_text_is_reported(
    bare: Bare, read: Read, name: str, content: bytes, mode: str, words: str
) -> None:
    bare.commit({name: content, GOOD.path: GOOD.text or ""}, modes={name: mode})
    found = by_path(await read())
    assert found[GOOD.path] == GOOD
    assert found[name].text is None
    assert words in found[name].error


async def test_runbook_text_is_read_as_committed(bare: Bare, read: Read) -> None:
    texts = {
        "a.runbook.sh": "",
        "b.runbook.sh": "a\r\nb\r",
        "c.runbook.sh": "x\ufeff\x01\u2028\n",
        "d.runbook.x": "é" * 9,
    }
    bare.commit(texts)
    found = by_path(await read())
    assert {path: one.text for path, one in found.items()} == texts


async def test_runbook_file_of_the_maximum_size_is_read(bare: Bare, read: Read) -> None:
    bare.commit({"a.runbook.sh": "x" * MAX_FILE})
    assert len(by_path(await read())["a.runbook.sh"].text or "") == MAX_FILE


async def test_linked_folder_and_submodule_are_not_entered(bare: Bare, read: Read) -> None:
    bare.commit(
        {"etc": "/etc", "sub.runbook.d": "1" * 40, ".gitmodules": "x", GOOD.path: GOOD.text or ""},
        modes={"etc": "120000", "sub.runbook.d": "160000"},
    )
    assert by_path(await read()) == {GOOD.path: GOOD}


async def test_hostile_file_names_become_safe_paths(bare: Bare, read: Read) -> None:
    blob = bare.raw("blob", b"echo\n")
    below = bare.raw("tree", tree(("100644", b"x.runbook.sh", blob)))
    names = [
        b"a/b.runbook.sh",
        b"a\\b.runbook.sh",
        b"a\nb.runbook.sh",
        b"\x1b[31m.runbook.sh",
        b"\xff.runbook.sh",
        "\u202e.runbook.sh".encode(),
        b"x" * 1001 + b".runbook.sh",
    ]
    entries = [("100644", name, blob) for name in names]
    folders = [("40000", name, below) for name in (b"..", b".", b".git", b"/", b"\xfe", b"ok")]
    bare.commit_tree(bare.raw("tree", tree(*entries, *folders)))
    found = by_path(await read())
    assert [path for path, one in found.items() if one.text is not None] == ["ok/x.runbook.sh"]
    assert all(one.error for path, one in found.items() if path != "ok/x.runbook.sh")
    assert len(found) == len(names) + 4 + 1
    for path in found:
        assert path.isprintable()
        assert not path.startswith("/")
        assert not {"..", ".", ""} & set(path.split("/"))


async def test_duplicate_path_in_a_commit_is_reported(bare: Bare, read: Read) -> None:
    one, two = bare.raw("blob", b"one"), bare.raw("blob", b"two")
    bare.commit_tree(bare.raw("tree", tree(("100644", b"a.runbook.sh", one), ("100644", b"a.runbook.sh", two))))
    found = by_path(await read())
    assert (found["a.runbook.sh"].text, found["a.runbook.sh"].error) == (
        None,
        "the commit has two files with this path",
    )


async def test_commit_with_more_than_ten_thousand_runbooks_is_rejected(bare: Bare, read: Read) -> None:
    files = {f"{number % 100}/{number}.runbook.sh": f"echo {number}\n" for number in range(10_000)}
    bare.commit(files)
    found = by_path(await read())
    assert {path: one.text for path, one in found.items()} == files
    bare.commit({**files, "one-more.runbook.sh": "x"})
    with pytest.raises(Invalid, match="more than 10000 runbooks"):
        await read()


@pytest.mark.parametrize(
    ("files", "limits", "words"),
    [
        ({f"{number}.runbook.sh": "x" * 600_000 for number in range(2)}, {"texts": 1 << 20}, "exceed 1 MiB in total"),
        (
            {f"{n}{'é' * 90}/{'é' * 90}.runbook.sh": "x" for n in range(3)},
            {"paths": 1_000},
            "exceed 0 MiB in total",
        ),
        ({"/".join("abcdefgh") + "/x.runbook.sh": "x"}, {"depth": 6}, "more than 6 levels deep"),
        ({f"{number}": "x" for number in range(20)}, {"entries": 19}, "more than 19 files and folders"),
    ],
)
async def test_commit_over_the_limits_is_rejected(
    bare: Bare, read: Read, files: dict[str, str], limits: dict[str, int], words: str
) -> None:
    bare.commit(files)
    with pytest.raises(Invalid, match=words):
        await read(**limits)


async def test_exponentially_nested_folders_are_rejected(bare: Bare, read: Read) -> None:
    below = bare.raw("blob", b"x")
    made = bare.raw("tree", tree(*(("100644", b"%02d.runbook.sh" % number, below) for number in range(10))))
    for _ in range(12):  # ten times as many paths each time
        made = bare.raw("tree", tree(*(("40000", b"%02d" % number, made) for number in range(10))))
    bare.commit_tree(made)
    with pytest.raises(Invalid, match="more than"):
        await read()


async def test_large_file_that_is_no_runbook_uses_no_memory(bare: Bare, read: Read) -> None:
    bare.commit({"dump.sql": b"\0" * (200 << 20), GOOD.path: GOOD.text or ""})
    assert by_path(await read(memory=128 << 20)) == {GOOD.path: GOOD}


async def test_commit_that_needs_too_much_memory_is_rejected(bare: Bare, read: Read) -> None:
    bare.commit({"huge.runbook.sh": b"x" * (200 << 20)})
    with pytest.raises(PosternError, match=r"more memory than|need more memory or"):
        await read(memory=128 << 20)


async def test_hooks_are_read_only_from_their_folders(bare: Bare, read: Read) -> None:
    bare.commit(
        {
            f"postern-hooks/{OPEN_HOOK}": "ours",
            f"hoop-hooks/{OPEN_HOOK}": "theirs",
            "hoop-hooks/session-close.runbook.py": b"\xff",
            f"other/hoop-hooks/{OPEN_HOOK}": "no hook",
            "hoop-hooks/other.runbook.py": "no hook",
        }
    )
    found: Snapshot = await read()
    assert found.hooks == {OPEN_HOOK: "ours"}
    files = by_path(found)
    assert sorted(files) == [
        "hoop-hooks/other.runbook.py",
        "hoop-hooks/session-close.runbook.py",
        f"other/hoop-hooks/{OPEN_HOOK}",
    ]
    assert "UTF-8" in files["hoop-hooks/session-close.runbook.py"].error


async def test_oversized_hook_is_reported_and_not_replaced_by_the_other_folder(bare: Bare, read: Read) -> None:
    paths = [f"{folder}/{name}" for folder in HOOK_FOLDERS for name in (OPEN_HOOK, CLOSE_HOOK)]
    texts = dict.fromkeys(paths, "x" * MAX_HOOK)
    bare.commit({**texts, paths[0]: "x" * (MAX_HOOK + 1), paths[3]: "x" * (MAX_HOOK + 1)})
    found: Snapshot = await read()
    assert found.hooks == {CLOSE_HOOK: "x" * MAX_HOOK}
    assert {path: file.text for path, file in by_path(found).items()} == {paths[0]: None, paths[3]: None}
    assert "larger than the limit for a session hook" in by_path(found)[paths[0]].error


async def test_attack_two_hooks_of_one_name_in_a_tree_are_both_rejected(bare: Bare, read: Read) -> None:
    """A reviewer of the commit could have been shown the other one."""
    hooks = [bare.raw("blob", text) for text in (b"harmless", b"evil")]
    ours, theirs = (
        bare.raw("tree", tree(*(("100644", OPEN_HOOK.encode(), one) for one in these))) for these in (hooks, hooks[:1])
    )
    bare.commit_tree(bare.raw("tree", tree(("40000", b"hoop-hooks", theirs), ("40000", b"postern-hooks", ours))))
    found: Snapshot = await read()
    assert found.hooks == {}
    assert "two files" in by_path(found)[f"postern-hooks/{OPEN_HOOK}"].error


async def test_author_and_message_are_decoded_and_cleaned(bare: Bare, read: Read) -> None:
    folder = bare.raw("tree", b"")
    commit = bare.raw(
        "commit",
        b"tree %s\nauthor J\xf6rg\x1b[31m <j@example.com> 0 +0000\ncommitter x <x@y> 0 +0000\n" % folder.encode()
        + b"encoding latin-1\n\nGr\xf6\xdfe\x00\x07\n\nbody"
        + b"y" * 20_000,
    )
    (bare.path / "refs/heads/main").write_text(f"{commit}\n")
    found: Snapshot = await read()
    assert found.author == "Jörg[31m <j@example.com>"
    assert found.message.startswith("Größe\n\nbody")
    assert len(found.message) == 10_000


async def test_branch_that_does_not_lead_to_a_commit_is_rejected(bare: Bare, read: Read) -> None:
    (bare.path / "refs/heads/main").write_text(f"{bare.raw('blob', b'x')}\n")
    with pytest.raises(Invalid, match="does not point to a commit"):
        await read()
