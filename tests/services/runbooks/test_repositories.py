"""Configured repositories: what is taken, what becomes of credentials, and what is told of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.support.runbooks import NAME, URL
from tests.support.world import World

from postern.domain.identity.principal import Principal
from postern.domain.runbook import MAX_FILE, MAX_REPOSITORIES, REPOSITORY_SECRETS, Repository, repository_id
from postern.domain.secret import Secret
from postern.errors import Conflict, Denied, Invalid, Malformed, NotFound, TooMany
from postern.services.runbooks.repositories import MAX_TTL, FileFields, Repositories
from postern.services.server.audit import redact
from postern.services.server.audit_context import AuditContext, collect_change

OTHER = "https://git.example.com/other"
GIVEN = {"git_url": URL, "git_password": Secret("token")}
LEFT_OUT = {"git_url": URL}
FILE = FileFields("ops/new.runbook.sh", "echo")


@pytest.fixture
def repositories(world: World) -> Repositories:
    return world.services().runbook_repositories


@pytest.fixture
async def admin(world: World) -> Principal:
    return await world.add_user("root", "admin")


async def password_of(world: World, url: str = URL) -> str:
    found = await world.stores.runbook_repositories.get(world.org_id, str(repository_id(url)))
    assert found is not None
    return found.git_password.reveal()


async def test_a_stored_secret_stays_with_its_address_until_it_is_replaced_or_cleared(
    world: World, repositories: Repositories, admin: Principal
) -> None:
    await repositories.create(admin, GIVEN)
    await repositories.replace(admin, NAME, LEFT_OUT)
    assert await password_of(world) == "token"
    await repositories.replace_all(admin, [LEFT_OUT])
    assert await password_of(world) == "token"
    await repositories.replace(admin, NAME, GIVEN | {"git_password": Secret("other")})
    assert await password_of(world) == "other"
    await repositories.update(admin, URL, {"git_password": Secret("")})
    assert await password_of(world) == ""


@pytest.mark.parametrize("way", ["update", "replace", "replace_all"])
async def test_attack_a_secret_that_is_taken_away_is_not_brought_back_by_a_change_at_the_same_time(
    world: World, repositories: Repositories, admin: Principal, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    await repositories.create(admin, GIVEN)
    check = world.fetcher.check

    async def meanwhile(repository: Repository) -> None:
        monkeypatch.setattr(world.fetcher, "check", check)
        await repositories.update(admin, NAME, {"git_password": Secret("")})

    monkeypatch.setattr(world.fetcher, "check", meanwhile)
    late = LEFT_OUT | {"branch": "next"}
    by_way: dict[str, Callable[[], Awaitable[object]]] = {
        "update": lambda: repositories.update(admin, NAME, late),
        "replace": lambda: repositories.replace(admin, NAME, late),
        "replace_all": lambda: repositories.replace_all(admin, [late]),
    }
    with pytest.raises(Conflict, match="changed by another request"):
        await by_way[way]()
    assert await password_of(world) == ""
    await repositories.replace_all(admin, [late])
    assert await password_of(world) == ""


@pytest.mark.parametrize(
    "elsewhere",
    [
        "https://evil.example.com/ops/books.git",
        "http://git.example.com/ops/books.git",
        "https://git.example.com:8443/ops/books.git",
        "https://git.example.com/ops/books",
        "ssh://git@git.example.com/ops/books.git",
    ],
)
async def test_a_stored_secret_goes_nowhere_else(
    world: World, repositories: Repositories, admin: Principal, elsewhere: str
) -> None:
    await repositories.create(admin, GIVEN)
    for change in (repositories.update, repositories.replace):
        with pytest.raises(Malformed, match="new address"):
            await change(admin, NAME, {"git_url": elsewhere})
    await repositories.replace_all(admin, [{"git_url": elsewhere}])
    assert await password_of(world, elsewhere) == ""


async def test_what_does_not_change_is_not_read_again(
    world: World, repositories: Repositories, admin: Principal
) -> None:
    world.fetcher.put({"a.runbook.sh": "echo"})
    made = await repositories.create(admin, GIVEN)
    read = await repositories.refresh(admin, NAME)
    assert (read.commit, read.error) != (None, "")
    world.clock.forward(seconds=5)
    await repositories.replace_all(admin, [LEFT_OUT])
    for same in (await repositories.get(admin, NAME), await repositories.replace(admin, NAME, GIVEN)):
        assert (same.commit, same.fetched_at, same.tried_at) == (read.commit, read.fetched_at, read.tried_at)
    changed = await repositories.update(admin, NAME, {"branch": "next"})
    assert (changed.commit, changed.branch) == (None, "next")
    assert (changed.created_at, changed.updated_at) == (made.created_at, world.clock())
    again = await repositories.update(admin, NAME, {"branch": "third"})
    assert again.updated_at != changed.updated_at  # within one tick of the clock


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"git_url": "no address"}, "git_url"),
        ({"git_url": ""}, "git_url"),
        ({"git_url": "https://git.example.com"}, "git_url"),
        ({"git_url": "https://[::1/x"}, "git_url"),
        ({"git_url": "https://git.example.com/" + "x" * 3000}, "git_url"),
        ({"git_url": "https://git.example.com/" + "x" * 600}, "git_url"),
        ({"git_url": "https://git.example.com/a\u202eb"}, "git_url"),
        ({"branch": "a\nb"}, "branch"),
        ({"branch": "x" * 300}, "branch"),
        ({"git_password": Secret("x" * 20_000)}, "git_password"),
        ({"hook_ttl": -1}, "git_hook_ttl"),
        ({"hook_ttl": MAX_TTL + 1}, "git_hook_ttl"),
    ],
)
async def test_what_cannot_be_is_refused_by_its_field(
    world: World, repositories: Repositories, admin: Principal, fields: dict[str, Any], field: str
) -> None:
    given = LEFT_OUT | fields
    with pytest.raises(Invalid) as single:
        await repositories.create(admin, given)
    assert single.value.field == field
    with pytest.raises(Invalid) as among:
        await repositories.replace_all(admin, [{"git_url": OTHER}, given])
    assert among.value.field == f"repositories[1].{field}"
    assert await world.stores.runbook_repositories.all(world.org_id) == []


async def test_what_the_fetcher_refuses_is_refused(world: World, repositories: Repositories, admin: Principal) -> None:
    world.fetcher.refused[URL] = Invalid("ssh_key: is no private key", field="ssh_key")
    with pytest.raises(Invalid, match=r"repositories\[0\]\.ssh_key: is no private key"):
        await repositories.replace_all(admin, [GIVEN])
    with pytest.raises(Invalid, match="ssh_key: is no private key"):
        await repositories.create(admin, GIVEN)


async def test_the_same_twice_is_refused(repositories: Repositories, admin: Principal) -> None:
    same = "ssh://git@git.example.com/ops/books"
    with pytest.raises(Malformed, match=f"{NAME} is listed more than once"):
        await repositories.replace_all(admin, [GIVEN, {"git_url": same}])
    await repositories.create(admin, GIVEN)
    for url in (URL, same):
        with pytest.raises(Conflict):
            await repositories.create(admin, {"git_url": url})


async def test_there_may_be_only_so_many(repositories: Repositories, admin: Principal) -> None:
    many = [{"git_url": f"{OTHER}{number}"} for number in range(MAX_REPOSITORIES + 1)]
    with pytest.raises(Invalid, match=f"at most {MAX_REPOSITORIES}"):
        await repositories.replace_all(admin, many)
    await repositories.replace_all(admin, many[1:])
    with pytest.raises(TooMany):
        await repositories.create(admin, many[0])


async def test_one_that_is_removed_is_gone_with_what_was_read(
    world: World, repositories: Repositories, admin: Principal
) -> None:
    world.fetcher.put({"a.runbook.sh": "echo"})
    await repositories.create(admin, GIVEN)
    await repositories.refresh(admin, NAME)
    await repositories.remove(admin, NAME)
    for deed in (
        repositories.get(admin, NAME),
        repositories.remove(admin, NAME),
        repositories.refresh(admin, NAME),
        repositories.update(admin, NAME, GIVEN),
        repositories.commit(admin, NAME, FILE),
    ):
        with pytest.raises(NotFound):
            await deed
    again = await repositories.create(admin, GIVEN)
    assert again.commit is None


async def test_a_runbook_is_written_by_who_asked_and_shown_at_once(
    world: World, repositories: Repositories, admin: Principal
) -> None:
    services = world.services()
    world.fetcher.put({})
    odd = replace(admin, name="Ann <evil>\n")
    await services.runbook_repositories.create(odd, GIVEN)
    written = await services.runbook_repositories.commit(odd, NAME, FILE)
    assert world.fetcher.written == [(FILE.path, f"Add {FILE.path}", f"Ann evil <{admin.email}>")]
    found = await services.runbook_library.find(world.org_id, NAME, FILE.path)
    assert (found.commit, found.text) == (written, "echo")
    with pytest.raises(Conflict):
        await services.runbook_repositories.commit(odd, NAME, FILE)
    await services.runbook_repositories.commit(odd, NAME, replace(FILE, overwrite=True, message="why"))
    assert world.fetcher.written[-1][1] == "why"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "../x.runbook.sh",
        "a/../../x.runbook.sh",
        "a//x.runbook.sh",
        ".git/x.runbook.sh",
        "a/.GIT/x.runbook.sh",
        "a\\x.runbook.sh",
        "c:/x.runbook.sh",
        "x\n.runbook.sh",
        " x.runbook.sh",
        "x.runbook.sh/y",
        "readme.md",
        "x" * 1024 + ".runbook.sh",
    ],
)
async def test_a_path_that_is_none_is_refused(
    world: World, repositories: Repositories, admin: Principal, path: str
) -> None:
    world.fetcher.put({})
    await repositories.create(admin, GIVEN)
    with pytest.raises(Invalid) as refused:
        await repositories.commit(admin, NAME, replace(FILE, path=path))
    assert refused.value.field == "path"
    assert world.fetcher.written == []


@pytest.mark.parametrize("fields", [{"content": "\u00e9" * MAX_FILE}, {"message": "x" * 20_000}])
async def test_a_file_is_bounded(
    world: World, repositories: Repositories, admin: Principal, fields: dict[str, Any]
) -> None:
    world.fetcher.put({})
    await repositories.create(admin, GIVEN)
    with pytest.raises(Invalid):
        await repositories.commit(admin, NAME, replace(FILE, **fields))


async def test_only_administrators_replace_all_read_and_write(
    world: World, repositories: Repositories, admin: Principal
) -> None:
    await repositories.create(admin, GIVEN)
    ann, auditor = await world.add_user("ann"), await world.add_user("eve", "auditor")
    for who in (ann, auditor):
        for deed in (
            repositories.replace_all(who, []),
            repositories.refresh(who, NAME),
            repositories.commit(who, NAME, FILE),
        ):
            with pytest.raises(Denied):
                await deed


async def test_the_audit_log_hears_what_is_set_and_no_secret(
    world: World, repositories: Repositories, admin: Principal
) -> None:
    secret = LEFT_OUT | {name: Secret("planted") for name in REPOSITORY_SECRETS}

    def shown(trail: AuditContext) -> str:
        return repr(redact({"before": trail.before, "after": trail.after}))

    with collect_change() as added:
        await repositories.create(admin, secret)
    with collect_change() as replaced:
        await repositories.replace_all(admin, [secret | {"branch": "next"}])
    with collect_change() as removed:
        await repositories.remove(admin, NAME)
    for trail in (added, replaced, removed):
        assert "planted" not in shown(trail)
        assert "'git_password', 'ssh_key', 'ssh_keypass'" in shown(trail)
    assert "'branch': 'next'" in shown(replaced)


def test_who_logs_in_by_an_address_is_not_in_the_audit_log() -> None:
    body = {"git_url": "https://me:planted@git.example.com/x", "also": ["see HTTP://planted@host/y, and a@b"]}
    assert redact(body) == {
        "git_url": "https://[REDACTED]@git.example.com/x",
        "also": ["see HTTP://[REDACTED]@host/y, and a@b"],
    }
