"""Repositories over file://, and writing: what all transports share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integrations.git.conftest import LOOPBACK, repository
from tests.support.gits import ADA, Bare, Forge, git

from postern.domain.runbook import MAX_FILE, Repository
from postern.domain.secret import Secret
from postern.errors import Conflict, Invalid, Unavailable
from postern.integrations.git.fetcher import GitFetcher
from postern.integrations.git.messages import RepositoryPolicy

Make = Callable[..., GitFetcher]
HOOKS = ("pre-receive", "update", "post-receive", "post-update", "reference-transaction", "post-checkout", "pre-commit")


@pytest.fixture
def allowed(tmp_path: Path) -> Path:
    made = tmp_path / "allowed"
    made.mkdir()
    return made


@pytest.fixture
def local(fetcher: Make, allowed: Path) -> GitFetcher:
    return fetcher(RepositoryPolicy(("file",), folders=(str(allowed),)))


def at(path: Path, **more: object) -> Repository:
    return repository(f"file://{path}", **more)


async def test_repository_in_an_allowed_folder_is_read(local: GitFetcher, allowed: Path) -> None:
    bare = Bare.made(allowed / "a.git")
    bare.commit({"old.runbook.sh": "old"})
    commit = bare.commit({"a/b.runbook.sh": "echo\n"}, "Say")
    git(bare.path, "gc", "--quiet")
    found = await local.fetch(at(bare.path))
    assert (found.commit, found.message) == (commit, "Say")
    assert [(one.path, one.text) for one in found.files] == [("a/b.runbook.sh", "echo\n")]


@pytest.mark.parametrize("url", ["file:///etc", "file:///{}/../../etc", "file://elsewhere/{}/a.git", "file:{}/a.git"])
async def test_folder_that_is_not_allowed_is_rejected(local: GitFetcher, allowed: Path, url: str) -> None:
    with pytest.raises(Invalid):
        await local.fetch(repository(url.format(allowed)))


async def test_file_scheme_is_rejected_unless_a_setting_allows_it(fetcher: Make, allowed: Path) -> None:
    with pytest.raises(Invalid, match="POSTERN_RUNBOOK_SCHEMES"):
        await fetcher(RepositoryPolicy(folders=(str(allowed),))).fetch(at(allowed / "a.git"))


async def test_link_out_of_the_folder_is_not_followed(local: GitFetcher, allowed: Path, tmp_path: Path) -> None:
    outside = Bare.made(tmp_path / "outside.git")
    outside.commit({"secret.runbook.sh": "secret"})
    (allowed / "link.git").symlink_to(outside.path)
    with pytest.raises(Invalid, match="allowed only for folders"):
        await local.fetch(at(allowed / "link.git"))


@pytest.mark.parametrize("kind", ["gitfile", "commondir", "alternates", "objects", "refs"])
async def test_repository_with_parts_outside_its_folder_is_rejected(
    local: GitFetcher, allowed: Path, tmp_path: Path, kind: str
) -> None:
    outside = Bare.made(tmp_path / "outside.git")
    outside.commit({"secret.runbook.sh": "secret"})
    inside = Bare.made(allowed / "a.git").path
    if kind == "gitfile":
        inside = allowed / "b"
        inside.mkdir()
        (inside / ".git").write_text(f"gitdir: {outside.path}\n")
    elif kind == "commondir":
        (inside / "commondir").write_text(f"{outside.path}\n")
    elif kind == "alternates":
        (inside / "objects/info/alternates").write_text(f"{outside.path}/objects\n")
    else:
        git(inside, "--version")
        (inside / kind).rename(tmp_path / "aside")
        (inside / kind).symlink_to(outside.path / kind)
    with pytest.raises(Invalid, match="parts of the repository are elsewhere"):
        await local.fetch(at(inside))


async def test_folder_without_a_repository_is_unavailable(local: GitFetcher, allowed: Path) -> None:
    with pytest.raises(Unavailable, match="no git repository"):
        await local.fetch(at(allowed))


async def test_write_makes_one_commit_on_top(local: GitFetcher, allowed: Path) -> None:
    bare = Bare.made(allowed / "a.git")
    before = bare.commit({"README": "x", "ops/a.runbook.sh": "a", "ops/z": "z"})
    done = await local.write(at(bare.path), "ops/sub/b.runbook.sh", "echo b\n", "Add b", ADA, overwrite=False)
    assert bare.log("%H %an <%ae> %s") == [f"{done} {ADA} Add b", f"{before} {ADA} change"]
    names = git(bare.path, "ls-tree", "-r", "--name-only", done).splitlines()
    assert names == ["README", "ops/a.runbook.sh", "ops/sub/b.runbook.sh", "ops/z"]
    git(bare.path, "fsck", "--strict")


async def test_write_overwrites_a_file_only_on_request(local: GitFetcher, allowed: Path) -> None:
    bare = Bare.made(allowed / "a.git")
    before = bare.commit({"a.runbook.sh": "a"}, modes={"a.runbook.sh": "100755"})
    with pytest.raises(Conflict, match="overwrite"):
        await local.write(at(bare.path), "a.runbook.sh", "b", "Change", ADA, overwrite=False)
    assert await local.write(at(bare.path), "a.runbook.sh", "a", "Same", ADA, overwrite=False) == before
    done = await local.write(at(bare.path), "a.runbook.sh", "b", "Change", ADA, overwrite=True)
    assert bare.text("a.runbook.sh") == "b"
    assert git(bare.path, "ls-tree", done).startswith("100755")


async def test_write_creates_the_first_commit_of_an_empty_repository(local: GitFetcher, allowed: Path) -> None:
    bare = Bare.made(allowed / "a.git", "trunk")
    done = await local.write(at(bare.path), "a.runbook.sh", "a", "First", ADA, overwrite=False)
    assert bare.head("trunk") == done


@pytest.mark.parametrize(
    "path",
    [
        "a.sh",
        "../a.runbook.sh",
        "a/../../b.runbook.sh",
        "/a.runbook.sh",
        "a//b.runbook.sh",
        ".git/a.runbook.sh",
        ".GIT/hooks/a.runbook.sh",
        "a\\b.runbook.sh",
        "a\n.runbook.sh",
        "a\0.runbook.sh",
        "\ud800.runbook.sh",
        ".runbook.sh",
        "a.runbook.d/x",
        "a/",
        "",
        f"{'a' * 1000}.runbook.sh",
    ],
)
async def test_write_rejects_an_invalid_path(local: GitFetcher, allowed: Path, path: str) -> None:
    bare = Bare.made(allowed / "a.git")
    before = bare.commit({"a.runbook.sh": "a"})
    with pytest.raises(Invalid) as caught:
        await local.write(at(bare.path), path, "b", "Change", ADA, overwrite=True)
    assert caught.value.field == "path"
    assert bare.head() == before


@pytest.mark.parametrize(
    ("content", "message", "author", "field"),
    [
        ("x" * (MAX_FILE + 1), "Change", ADA, "content"),
        ("a\0b", "Change", ADA, "content"),
        ("a", " ", ADA, "message"),
        ("a", "Change", "nobody", "author"),
        ("a", "Change", "A <a@b>\ncommitter B <b@b> 0 +0000", "author"),
    ],
)
async def test_write_rejects_invalid_content_message_or_author(
    local: GitFetcher, allowed: Path, content: str, message: str, author: str, field: str
) -> None:
    bare = Bare.made(allowed / "a.git")
    with pytest.raises(Invalid) as caught:
        await local.write(at(bare.path), "a.runbook.sh", content, message, author, overwrite=False)
    assert caught.value.field == field


async def test_write_never_replaces_a_link_or_a_file_by_a_folder(local: GitFetcher, allowed: Path) -> None:
    bare = Bare.made(allowed / "a.git")
    before = bare.commit({"l.runbook.sh": "/etc/passwd", "f": "x"}, modes={"l.runbook.sh": "120000"})
    for path in ("l.runbook.sh", "f/a.runbook.sh"):
        with pytest.raises(Invalid):
            await local.write(at(bare.path), path, "b", "Change", ADA, overwrite=True)
    assert bare.head() == before


async def test_write_to_a_repository_with_a_working_tree_is_rejected(local: GitFetcher, allowed: Path) -> None:
    work = allowed / "work"
    work.mkdir()
    git(work, "init", "--quiet", "--initial-branch=main", ".")
    git(work, "commit", "--quiet", "--allow-empty", "-m", "first")
    with pytest.raises(Invalid, match="bare"):
        await local.write(at(work), "a.runbook.sh", "a", "Change", ADA, overwrite=False)


async def test_write_over_https_creates_a_commit(forge: Forge, fetcher: Make) -> None:
    bare = forge.repository()
    before = bare.commit({"a.runbook.sh": "a"})
    forge.users = {"ada": "password-of-ada"}
    where = repository(f"{forge.url}/team/runbooks.git", git_user="ada", git_password=Secret("password-of-ada"))
    writer = fetcher(RepositoryPolicy(networks=LOOPBACK, authority=str(forge.authority)))
    done = await writer.write(where, "größe.runbook.sql", "SELECT 1;\n", "More", ADA, overwrite=False)
    assert bare.log("%H") == [done, before]
    assert bare.text("größe.runbook.sql") == "SELECT 1;"


async def test_write_after_a_concurrent_commit_is_a_conflict(forge: Forge, fetcher: Make) -> None:
    bare = forge.repository()
    bare.commit({"a.runbook.sh": "a"})
    commits: list[str] = []

    def meanwhile(handler: object) -> bool:
        if "git-receive-pack" in handler.path and not commits:  # type: ignore[attr-defined]
            commits.append(bare.commit({"b.runbook.sh": "b"}))
        return False

    forge.answer = meanwhile
    writer = fetcher(RepositoryPolicy(networks=LOOPBACK, authority=str(forge.authority)))
    with pytest.raises(Conflict, match="the branch was changed"):
        await writer.write(
            repository(f"{forge.url}/team/runbooks.git"), "c.runbook.sh", "c", "More", ADA, overwrite=False
        )
    assert bare.head() == commits[0]


async def test_write_with_a_concurrent_commit_at_the_last_moment_is_a_conflict(forge: Forge, fetcher: Make) -> None:
    bare = forge.repository()
    bare.commit({"a.runbook.sh": "a"})
    commits: list[str] = []

    def meanwhile(handler: object) -> bool:
        if handler.path.endswith("/git-receive-pack"):  # type: ignore[attr-defined]
            commits.append(bare.commit({"b.runbook.sh": "b"}))
        return False

    forge.answer = meanwhile
    writer = fetcher(RepositoryPolicy(networks=LOOPBACK, authority=str(forge.authority)))
    with pytest.raises(Conflict, match="the branch was changed"):
        await writer.write(
            repository(f"{forge.url}/team/runbooks.git"), "c.runbook.sh", "c", "More", ADA, overwrite=False
        )
    assert bare.head() == commits[0]


async def test_write_to_a_protected_branch_is_rejected(forge: Forge, fetcher: Make) -> None:
    bare = forge.repository()
    before = bare.commit({"a.runbook.sh": "a"})
    hook = bare.path / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    writer = fetcher(RepositoryPolicy(networks=LOOPBACK, authority=str(forge.authority)))
    with pytest.raises(Invalid, match=r"rejected the commit.*hook declined"):
        await writer.write(
            repository(f"{forge.url}/team/runbooks.git"), "c.runbook.sh", "c", "More", ADA, overwrite=False
        )
    assert bare.head() == before


async def test_concurrent_writes_are_serialised_or_conflict(local: GitFetcher, allowed: Path) -> None:
    bare = Bare.made(allowed / "a.git")
    before = bare.commit({"a.runbook.sh": "a"})
    done = await asyncio.gather(
        *(local.write(at(bare.path), f"{number}.runbook.sh", "x", "More", ADA, overwrite=False) for number in range(4)),
        return_exceptions=True,
    )
    won = [one for one in done if isinstance(one, str)]
    assert won
    assert all(isinstance(one, (str, Conflict)) for one in done)
    assert set(bare.log("%H")) == {before, *won}


async def test_hooks_and_programs_of_a_git_repository_are_never_run(
    local: GitFetcher, allowed: Path, tmp_path: Path
) -> None:
    bare = Bare.made(allowed / "a.git")
    ran = tmp_path / "ran"
    program = f"#!/bin/sh\ntouch {ran}\n"
    bare.commit(
        {
            ".gitmodules": f'[submodule "x"]\npath = x\nurl = ext::sh -c "touch {ran}"\n',
            "x": "1" * 40,
            ".gitattributes": "* filter=evil\n",
            "hooks/post-checkout": program,
            "a.runbook.sh": "a",
        },
        modes={"x": "160000"},
    )
    for name in HOOKS:
        hook = bare.path / "hooks" / name
        hook.write_text(program)
        hook.chmod(0o755)
    for key in ("core.fsmonitor", "core.sshCommand", "filter.evil.smudge", "uploadpack.packObjectsHook"):
        git(bare.path, "config", key, str(bare.path / "hooks/post-checkout"))
    found = await local.fetch(at(bare.path))
    await local.write(at(bare.path), "b.runbook.sh", "b", "More", ADA, overwrite=False)
    assert [one.path for one in found.files] == ["a.runbook.sh"]
    assert not ran.exists()
