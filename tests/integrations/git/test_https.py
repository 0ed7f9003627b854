"""Repositories over HTTPS, from git's own server."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from tests.integrations.git.conftest import LOOPBACK, repository
from tests.support.gits import Forge

from postern.domain.runbook import CLOSE_HOOK, OPEN_HOOK, RunbookFile
from postern.domain.secret import Secret
from postern.errors import Invalid, Unavailable
from postern.integrations.git.fetcher import GitFetcher
from postern.integrations.git.messages import RepositoryPolicy

pytestmark = pytest.mark.ci

Make = Callable[..., GitFetcher]
FILES = {
    "README.md": "# ours\n",
    "ops/restart.runbook.sh": "systemctl restart {{ .unit }}\n",
    "sql/größe.runbook.sql": "SELECT pg_database_size({{ .name }});\n",
    "hoop-hooks/session-open.runbook.py": "print('opened')\n",
    "hoop-hooks/session-close.runbook.py": "print('closed')\n",
}


def policy(forge: Forge, **more: object) -> RepositoryPolicy:
    given: dict[str, object] = {"networks": LOOPBACK, "authority": str(forge.authority), **more}
    return RepositoryPolicy(**given)  # type: ignore[arg-type]


async def test_fetch_reads_the_runbooks_of_the_newest_commit(forge: Forge, fetcher: Make) -> None:
    bare = forge.repository()
    bare.commit({"old.runbook.sh": "gone"})
    commit = bare.commit(FILES, "Second\n\nWith a body.")
    found = await fetcher(policy(forge)).fetch(repository(f"{forge.url}/team/runbooks.git"))
    assert (found.commit, found.author, found.message) == (
        commit,
        "Ada Example <ada@example.com>",
        "Second\n\nWith a body.",
    )
    assert found.files == (
        RunbookFile("ops/restart.runbook.sh", FILES["ops/restart.runbook.sh"]),
        RunbookFile("sql/größe.runbook.sql", FILES["sql/größe.runbook.sql"]),
    )
    assert found.hooks == {OPEN_HOOK: "print('opened')\n", CLOSE_HOOK: "print('closed')\n"}


async def test_fetch_reads_the_moved_head(forge: Forge, fetcher: Make) -> None:
    bare = forge.repository()
    reader, where = fetcher(policy(forge)), repository(f"{forge.url}/team/runbooks.git")
    commits = [bare.commit({"a.runbook.sh": text}) for text in ("one", "two")][-1:]
    commits.append(bare.commit({"a.runbook.sh": "three"}))
    found = await reader.fetch(where)
    assert (found.commit, found.files[0].text) == (commits[-1], "three")


async def test_password_and_token_are_sent_on_request(forge: Forge, fetcher: Make) -> None:
    forge.repository().commit(FILES)
    forge.users = {"ada": "s3cret pass:word", "oauth2": "glpat-0123456789"}
    reader, url = fetcher(policy(forge)), f"{forge.url}/team/runbooks.git"
    by_password = await reader.fetch(repository(url, git_user="ada", git_password=Secret("s3cret pass:word")))
    by_token = await reader.fetch(repository(url, git_password=Secret("glpat-0123456789")))
    assert by_password == by_token


@pytest.mark.parametrize("given", ["wrong-password", ""])
async def test_wrong_password_is_reported_without_quoting_it(forge: Forge, fetcher: Make, given: str) -> None:
    forge.repository().commit(FILES)
    forge.users = {"ada": "right"}
    where = repository(f"{forge.url}/team/runbooks.git", git_user="ada", git_password=Secret(given))
    with pytest.raises(Unavailable, match="check git_user and git_password") as caught:
        await fetcher(policy(forge)).fetch(where)
    assert not given or given not in caught.value.message


async def test_requested_branch_is_read(forge: Forge, fetcher: Make) -> None:
    bare = forge.repository()
    bare.commit({"a.runbook.sh": "main"})
    bare.commit({"a.runbook.sh": "other"}, branch="release/1.2")
    reader, url = fetcher(policy(forge)), f"{forge.url}/team/runbooks.git"
    assert (await reader.fetch(repository(url, branch="release/1.2"))).files[0].text == "other"
    assert (await reader.fetch(repository(url))).files[0].text == "main"
    with pytest.raises(Invalid, match="no branch 'nowhere'"):
        await reader.fetch(repository(url, branch="nowhere"))


async def test_default_branch_of_the_repository_is_read(forge: Forge, fetcher: Make) -> None:
    bare = forge.repository(branch="trunk")
    bare.commit({"a.runbook.sh": "trunk"}, branch="trunk")
    bare.commit({"a.runbook.sh": "main"}, branch="main")
    found = await fetcher(policy(forge)).fetch(repository(f"{forge.url}/team/runbooks.git"))
    assert found.files[0].text == "trunk"


async def test_empty_repository_is_rejected(forge: Forge, fetcher: Make) -> None:
    forge.repository()
    with pytest.raises(Invalid, match="is empty"):
        await fetcher(policy(forge)).fetch(repository(f"{forge.url}/team/runbooks.git"))


async def test_missing_repository_is_unavailable(forge: Forge, fetcher: Make) -> None:
    with pytest.raises(Unavailable, match="no such repository"):
        await fetcher(policy(forge)).fetch(repository(f"{forge.url}/team/none.git"))


async def test_unconfigured_certificate_authority_is_not_trusted(forge: Forge, fetcher: Make) -> None:
    forge.repository().commit(FILES)
    with pytest.raises(Unavailable, match=r"is not trusted.*POSTERN_RUNBOOK_CA"):
        await fetcher(policy(forge, authority="")).fetch(repository(f"{forge.url}/team/runbooks.git"))
    assert forge.asked == []


async def test_certificate_of_another_host_is_not_trusted(forge: Forge, fetcher: Make) -> None:
    url = forge.url.replace("localhost", "127.0.0.1")
    with pytest.raises(Unavailable, match="is not trusted"):
        await fetcher(policy(forge)).fetch(repository(f"{url}/team/runbooks.git"))
    assert forge.asked == []


async def test_http_is_rejected_unless_a_setting_allows_it(plain_forge: Forge, fetcher: Make) -> None:
    plain_forge.repository().commit(FILES)
    where = repository(f"{plain_forge.url}/team/runbooks.git")
    with pytest.raises(Invalid, match="must begin with one of https://, ssh://"):
        await fetcher(RepositoryPolicy(networks=LOOPBACK)).fetch(where)
    assert plain_forge.asked == []
    found = await fetcher(RepositoryPolicy(("http",), networks=LOOPBACK)).fetch(where)
    assert len(found.files) == 2


async def test_redirect_within_the_host_is_followed(forge: Forge, fetcher: Make) -> None:
    forge.repository("team/new.git").commit(FILES)
    forge.users = {"oauth2": "token-0123"}

    def moved(handler: object) -> bool:
        path = handler.path  # type: ignore[attr-defined]
        if path.startswith("/team/old"):
            handler.plain(301, b"", {"Location": path.replace("/team/old", "/team/new.git")})  # type: ignore[attr-defined]
            return True
        return False

    forge.answer = moved
    where = repository(f"{forge.url}/team/old", git_password=Secret("token-0123"))
    assert len((await fetcher(policy(forge)).fetch(where)).files) == 2


async def test_redirect_to_another_host_gets_no_credentials(forge: Forge, fetcher: Make) -> None:
    forge.repository().commit(FILES)
    other = forge.url.replace("localhost", "127.0.0.1")

    def moved(handler: object) -> bool:
        handler.plain(302, b"", {"Location": f"{other}{handler.path}"})  # type: ignore[attr-defined]
        return True

    forge.answer = moved
    where = repository(f"{forge.url}/team/runbooks.git", git_password=Secret("token-0123"))
    with pytest.raises(Unavailable, match="a different host"):
        await fetcher(policy(forge)).fetch(where)
    assert len(forge.asked) == 1


async def test_redirect_loop_ends_with_an_error(forge: Forge, fetcher: Make) -> None:
    def ring(handler: object) -> bool:
        handler.plain(302, b"", {"Location": handler.path})  # type: ignore[attr-defined]
        return True

    forge.answer = ring
    with pytest.raises(Unavailable, match="too many redirects"):
        await fetcher(policy(forge)).fetch(repository(f"{forge.url}/team/runbooks.git"))


async def test_server_error_is_shown_without_secrets_and_control_characters(forge: Forge, fetcher: Make) -> None:
    def echo(handler: object) -> bool:
        given = handler.headers["Authorization"]  # type: ignore[attr-defined]
        words = f"ERR \x1b[31m{given} {base64.b64decode(given[6:]).decode()}".encode()
        packet = b"001e# service=git-upload-pack\n0000%04x%s" % (len(words) + 4, words)
        handler.plain(200, packet, {"Content-Type": "application/x-git-upload-pack-advertisement"})  # type: ignore[attr-defined]
        return True

    forge.answer = echo
    where = repository(f"{forge.url}/team/runbooks.git", git_password=Secret("token-0123"))
    with pytest.raises(Unavailable) as caught:
        await fetcher(policy(forge)).fetch(where)
    assert caught.value.message.isprintable()
    assert "token-0123" not in caught.value.message
    assert base64.b64encode(b"oauth2:token-0123").decode() not in caught.value.message
