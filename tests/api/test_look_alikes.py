"""A name that only looks like another one is nobody's other spelling: every way in which accounts get names, and every
way in which somebody says who they are."""

from __future__ import annotations

import unicodedata

import httpx
import pytest
from tests.api.conftest import PASSWORD, Api
from tests.api.test_authorisation_matrix import SCIM_USER

from postern.domain.identity.names import fold_name, is_plain
from postern.errors import Invalid, NotFound
from postern.services.identity.ssh_keys import is_called
from postern.services.identity.users import checked_email

EMAIL = "kim@example.com"
LOOK_ALIKES = {
    "full-width": "\uff4b\uff49\uff4d@example.com",
    "full-width capitals": "\uff2b\uff29\uff2d@EXAMPLE.COM",
    "full-width at": "kim\uff20example.com",
    "full-width dot": "kim@example\uff0ecom",
    "Kelvin sign": "\u212aim@example.com",
    "mathematical": "\U0001d424im@example.com",
    "superscript": "ki\u1d50@example.com",
    "soft hyphen": "ki\u00adm@example.com",
    "zero width": "kim\u200b@example.com",
    "right to left mark": "\u200fkim@example.com",
}
SPELLINGS = ["kim@example.com", "KIM@Example.COM"]
each = pytest.mark.parametrize("name", LOOK_ALIKES.values(), ids=LOOK_ALIKES)


@pytest.fixture
async def kim(api: Api) -> Api:
    body = {"email": EMAIL, "password": PASSWORD}
    assert (await api.as_admin.post("/users", json=body)).status_code == 201
    return api


async def log_in(api: Api, email: str) -> httpx.Response:
    return await api.nobody.post("/localauth/login", json={"email": email, "password": PASSWORD})


@each
def test_look_alike_is_not_plain_and_folds_to_nobody(name: str) -> None:
    assert not is_plain(name)
    assert fold_name(name) == ""
    with pytest.raises(Invalid, match="look like others"):
        checked_email(name)


@pytest.mark.parametrize(
    "name", ["ann@example.com", "j\u00fcrgen@b\u00fccher.example", "\u6f22\u5b57@example.com", "o'neil@x.ie"]
)
def test_plain_name_in_any_script_is_taken_in_each_spelling(name: str) -> None:
    for spelled in (name, name.upper(), unicodedata.normalize("NFD", name)):
        assert checked_email(spelled) == name


@each
async def test_password_login_takes_only_the_account_s_own_name(kim: Api, name: str) -> None:
    assert (await log_in(kim, name)).status_code == 401


@pytest.mark.parametrize("name", SPELLINGS)
async def test_password_login_takes_any_case(kim: Api, name: str) -> None:
    assert (await log_in(kim, name)).status_code == 200


@each
async def test_no_account_gets_a_name_that_looks_like_another(kim: Api, name: str) -> None:
    headers = {"Content-Type": "application/scim+json"}
    scim = {"schemas": [SCIM_USER], "userName": name}
    for answer in (
        await kim.as_admin.post("/users", json={"email": name}),
        await kim.as_admin.post("/orgs", json={"name": "new", "admin_email": name}),
        await kim.as_admin.post("/scim/v2/Users", json=scim, headers=headers),
        await kim.as_admin.post("/scim/v2/Users", json=scim | {"userName": "x", "emails": [{"value": name}]}),
    ):
        assert answer.status_code in (400, 422), answer.text
    users = (await kim.as_admin.get("/users")).json()["data"]
    assert [user["email"] for user in users if "im" in user["email"]] == [EMAIL]


@each
async def test_lookups_by_name_find_only_the_account_s_own(kim: Api, name: str) -> None:
    store, org = kim.world.stores.principals, kim.world.org_id
    assert await store.by_email(org, name) is None
    with pytest.raises(NotFound):
        await kim.services.users.get(kim.users["admin"], name)
    account = await store.by_email(org, EMAIL)
    assert account is not None
    person = name.rpartition("@")[0]
    assert not is_called(account, name)
    assert person in ("kim", "") or not is_called(account, person)
    for spelled in SPELLINGS:
        assert is_called(account, spelled)
        assert is_called(account, spelled.rpartition("@")[0])


@each
async def test_credential_of_a_native_client_is_found_by_its_exact_name(api: Api, name: str) -> None:
    """As PostgreSQL's and MySQL's clients send it: byte by byte."""
    await api.make_connection()
    made = (await api.as_ann.post("/connections/shop/credentials")).json()
    username = made["username"]
    assert await api.services.access.find_grant(username) is not None
    wide = "".join(chr(ord(one) + 0xFEE0) if "!" <= one <= "~" else one for one in username)
    for other in (wide, username.upper(), username + "\u200b", "\u00ad" + username, name):
        assert await api.services.access.find_grant(other) is None


async def test_tries_at_one_account_count_together_however_it_is_spelled(kim: Api) -> None:
    for number in range(10):
        body = {"email": SPELLINGS[number % 2], "password": "wrong"}
        assert (await kim.nobody.post("/localauth/login", json=body)).status_code == 401
    assert (await log_in(kim, EMAIL)).status_code == 429
