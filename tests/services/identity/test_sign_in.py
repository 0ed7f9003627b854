"""From an identity provider's word to an account: found, made, bound or refused. On both engines."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.support.world import World

from postern.domain.identity.identity import Identity
from postern.domain.identity.principal import Account, GroupSource, PrincipalKind, PrincipalStatus
from postern.errors import Denied
from postern.services.identity.logins.sign_in import SignIn
from postern.store.ports.common_ports import Topic

ISSUER = "https://idp.example"


@pytest.fixture
def sign_in(world: World) -> SignIn:
    return SignIn(world.stores.principals, world.stores.organisations, world.signals, world.clock)


def identity(who: str = "ann", /, **changes: Any) -> Identity:
    given: dict[str, Any] = {
        "issuer": ISSUER,
        "subject": f"subject of {who}",
        "email": f"{who}@example.com",
        "email_verified": True,
        "name": who.title(),
    }
    return Identity(**(given | changes))


async def invite(world: World, name: str, *groups: str) -> Account:
    principal = await world.add_user(name, *groups, password_hash="made for a set-up link")
    account = Account(replace(principal, status=PrincipalStatus.INVITED))
    await world.stores.principals.update(account, world.clock())
    return account


async def set_status(world: World, account: Account, status: PrincipalStatus) -> None:
    changed = replace(account, principal=replace(account.principal, status=status))
    await world.stores.principals.update(changed, world.clock())


async def test_the_first_user_becomes_admin_and_the_next_does_not(world: World, sign_in: SignIn) -> None:
    first = await sign_in.account_of(world.org_id, identity("ann"))
    second = await sign_in.account_of(world.org_id, identity("bob"))
    assert (first.principal.is_admin, second.principal.is_admin) == (True, False)
    assert (first.principal.status, first.verified, first.last_login_at) == (
        PrincipalStatus.ACTIVE,
        True,
        world.clock(),
    )


async def test_exactly_one_of_many_first_users_becomes_admin(world: World, sign_in: SignIn) -> None:
    found = await asyncio.gather(*(sign_in.account_of(world.org_id, identity(f"user{n}")) for n in range(8)))
    assert sum(account.principal.is_admin for account in found) == 1
    assert await world.stores.principals.count(world.org_id) == 8


async def test_the_same_person_twice_at_once_is_one_account(world: World, sign_in: SignIn) -> None:
    await world.add_user("admin", "admin")
    found = await asyncio.gather(*(sign_in.account_of(world.org_id, identity()) for _ in range(5)))
    assert len({account.principal.id for account in found}) == 1
    assert await world.stores.principals.count(world.org_id) == 2


async def test_another_login_of_the_same_person_may_be_done_between_two_look_ups(
    world: World, sign_in: SignIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.add_user("admin", "admin")
    by_subject, quicker = world.stores.principals.by_subject, list[Account]()

    async def slow(*names: Any) -> Account | None:
        found = await by_subject(*names)
        monkeypatch.undo()
        quicker.append(await sign_in.account_of(world.org_id, identity()))
        return found

    monkeypatch.setattr(world.stores.principals, "by_subject", slow)
    found = await sign_in.account_of(world.org_id, identity())
    assert [account.principal.id for account in quicker] == [found.principal.id]


async def test_an_account_is_found_by_issuer_and_subject_whatever_the_name(world: World, sign_in: SignIn) -> None:
    first = await sign_in.account_of(world.org_id, identity())
    moved = identity(email="ann@other.example", name="Ann Other", picture="https://x.example/a.png")
    again = await sign_in.account_of(world.org_id, moved)
    assert again.principal.id == first.principal.id
    assert (again.principal.email, again.principal.name) == ("ann@other.example", "Ann Other")
    assert again.picture == "https://x.example/a.png"


@pytest.mark.parametrize("verified", [False, True])
async def test_takeover_by_email_an_account_in_use_is_never_reached(
    world: World, sign_in: SignIn, verified: bool
) -> None:
    """Case 60: whoever has the e-mail address of a local account, vouched for or not, is not its owner."""
    victim = await world.add_user("ann", "admin")
    with pytest.raises(Denied, match="another account with your e-mail address"):
        await sign_in.account_of(world.org_id, identity(email_verified=verified))
    account = await world.stores.principals.get(world.org_id, victim.id)
    assert account is not None
    assert (account.principal.issuer, account.principal.subject) == ("", victim.subject)


@pytest.mark.parametrize("verified", [False, True])
async def test_takeover_by_email_of_another_subject_or_issuer(world: World, sign_in: SignIn, verified: bool) -> None:
    await sign_in.account_of(world.org_id, identity())
    for other in (identity(subject="another"), identity(issuer="https://evil.example", subject="another")):
        with pytest.raises(Denied):
            await sign_in.account_of(world.org_id, replace(other, email_verified=verified))


async def test_another_issuer_with_the_same_subject_is_somebody_else(world: World, sign_in: SignIn) -> None:
    """Case 60: subjects mean something at their issuer only."""
    ann = await sign_in.account_of(world.org_id, identity())
    with pytest.raises(Denied, match="another identity provider"):
        await sign_in.account_of(world.org_id, identity(issuer="https://evil.example", email="eve@example.com"))
    unchanged = await world.stores.principals.get(world.org_id, ann.principal.id)
    assert unchanged is not None
    assert unchanged.principal.issuer == ISSUER


async def test_taking_the_email_of_another_account_is_refused(world: World, sign_in: SignIn) -> None:
    await world.add_user("boss", "admin")
    await sign_in.account_of(world.org_id, identity("eve"))
    with pytest.raises(Denied, match="another account has this e-mail"):
        await sign_in.account_of(world.org_id, identity("eve", email="boss@example.com"))


async def test_an_invited_account_is_bound_by_a_verified_email_only(world: World, sign_in: SignIn) -> None:
    invited = await invite(world, "ann", "dba")
    with pytest.raises(Denied):
        await sign_in.account_of(world.org_id, identity(email_verified=False))
    bound = await sign_in.account_of(world.org_id, identity(email="Ann@Example.com"))
    assert bound.principal.id == invited.principal.id
    assert (bound.principal.issuer, bound.principal.subject) == (ISSUER, "subject of ann")
    assert (bound.principal.status, bound.principal.groups) == (PrincipalStatus.ACTIVE, frozenset({"dba"}))
    assert bound.password_hash is None
    with pytest.raises(Denied):  # an invitation is good once
        await sign_in.account_of(world.org_id, identity(subject="another"))


@pytest.mark.parametrize("email", ["\N{KELVIN SIGN}im@example.com", "KIM@ＥXAMPLE.com", "kim@example.com\u0307"])
async def test_unicode_folded_email_does_not_reach_another_account(world: World, sign_in: SignIn, email: str) -> None:
    """Case 62: the Kelvin sign is a k in lower case."""
    await world.add_user("admin", "admin")
    invited = await invite(world, "kim", "dba")
    try:
        found = await sign_in.account_of(world.org_id, identity("kim", email=email))
    except Denied:
        return
    assert found.principal.id != invited.principal.id
    assert found.principal.groups == frozenset()


async def test_case_folded_subjects_and_groups_are_others(world: World, sign_in: SignIn) -> None:
    """Case 62."""
    await world.add_user("admin", "admin")
    groups = frozenset({"Admin", "ADMIN", " admin", "admin ", "admin\u200b", "\uff41dmin"})
    ann = await sign_in.account_of(world.org_id, identity(groups=groups))
    assert not ann.principal.is_admin
    with pytest.raises(Denied):
        await sign_in.account_of(world.org_id, identity(subject="SUBJECT OF ANN"))


async def test_groups_absent_empty_and_changed(world: World, sign_in: SignIn) -> None:
    """Case 48: what the provider dropped is dropped; what it says nothing of stays."""
    await world.add_user("admin", "admin")

    async def groups_after(groups: frozenset[str] | None) -> frozenset[str]:
        return (await sign_in.account_of(world.org_id, identity(groups=groups))).principal.groups

    assert await groups_after(frozenset({"dba", "auditor"})) == {"dba", "auditor"}
    assert await groups_after(None) == {"dba", "auditor"}
    assert await groups_after(frozenset({"dba"})) == {"dba"}
    assert await groups_after(frozenset({"admin"})) == {"admin"}
    assert await groups_after(frozenset()) == frozenset()


async def test_groups_by_hand_end_but_for_the_administrators(world: World, sign_in: SignIn) -> None:
    await sign_in.account_of(world.org_id, identity("root"))
    ann = (await sign_in.account_of(world.org_id, identity())).principal
    store = world.stores.principals
    await store.set_groups(ann.id, frozenset({"admin", "dba"}), GroupSource.MANUAL)
    await store.set_groups(ann.id, frozenset({"from scim"}), GroupSource.SCIM)
    after = (await sign_in.account_of(world.org_id, identity(groups=frozenset({"ops"})))).principal
    assert after.groups == {"admin", "ops", "from scim"}
    assert (await sign_in.account_of(world.org_id, identity(groups=None))).principal.groups == after.groups


async def test_everybody_is_told_when_groups_change_and_only_then(world: World, sign_in: SignIn) -> None:
    ann = (await sign_in.account_of(world.org_id, identity(groups=frozenset({"dba"})))).principal
    heard = [{"principal_id": str(ann.id)}]
    assert world.signals.of(Topic.PRINCIPAL_CHANGED) == heard
    await sign_in.account_of(world.org_id, identity(groups=frozenset({"dba", "\x00"})))
    assert world.signals.of(Topic.PRINCIPAL_CHANGED) == heard
    await sign_in.account_of(world.org_id, identity(groups=frozenset()))
    assert world.signals.of(Topic.PRINCIPAL_CHANGED) == heard * 2


async def test_groups_that_cannot_be_are_left_out(world: World, sign_in: SignIn) -> None:
    groups = frozenset({"dba", "", "x" * 129, "a\nb", "\0", "\ud800"})
    ann = await sign_in.account_of(world.org_id, identity(groups=groups))
    assert ann.principal.groups == {"admin", "dba"}


async def test_inactive_accounts_are_refused_and_stay_inactive(world: World, sign_in: SignIn) -> None:
    await world.add_user("admin", "admin")  # an organisation keeps one
    ann = await sign_in.account_of(world.org_id, identity())
    await set_status(world, ann, PrincipalStatus.INACTIVE)
    with pytest.raises(Denied, match="inactive"):
        await sign_in.account_of(world.org_id, identity())
    stored = await world.stores.principals.get(world.org_id, ann.principal.id)
    assert stored is not None
    with pytest.raises(Denied, match="inactive"):
        await sign_in.reconfirm(stored, identity())


async def test_made_inactive_while_logging_in_stays_inactive(world: World, sign_in: SignIn) -> None:
    await world.add_user("admin", "admin")  # an organisation keeps one
    ann = await sign_in.account_of(world.org_id, identity())
    await set_status(world, ann, PrincipalStatus.INACTIVE)
    with pytest.raises(Denied, match="was changed"):
        await sign_in.reconfirm(ann, identity())  # with the account as it was read before
    stored = await world.stores.principals.get(world.org_id, ann.principal.id)
    assert stored is not None
    assert stored.principal.status is PrincipalStatus.INACTIVE


async def test_an_unverified_email_does_not_replace_a_verified_one(world: World, sign_in: SignIn) -> None:
    await sign_in.account_of(world.org_id, identity())
    found = await sign_in.account_of(world.org_id, identity(email="ceo@example.com", email_verified=False))
    assert (found.principal.email, found.verified) == ("ann@example.com", True)
    bob = await sign_in.account_of(world.org_id, identity("bob", email_verified=False))
    assert not bob.verified
    bob = await sign_in.account_of(world.org_id, identity("bob", email="bob@b.example", email_verified=False))
    assert bob.principal.email == "bob@b.example"


@pytest.mark.parametrize("email", ["", "no address", "a@b@c", "x" * 320 + "@example.com", "a b@c"])
async def test_who_has_no_usable_email_is_told_why(world: World, sign_in: SignIn, email: str) -> None:
    with pytest.raises(Denied, match="e-mail address"):
        await sign_in.account_of(world.org_id, identity(email=email))
    assert await world.stores.principals.count(world.org_id) == 0


@pytest.mark.parametrize(
    ("given", "shown"),
    [("", "ann@example.com"), ("Ann\r\nX-Admin: 1", "Ann X-Admin: 1"), ("\x00\x1b[2J", "[2J"), ("x" * 300, "x" * 255)],
)
async def test_names_are_shown_on_one_line(world: World, sign_in: SignIn, given: str, shown: str) -> None:
    assert (await sign_in.account_of(world.org_id, identity(name=given))).principal.name == shown


async def test_service_accounts_and_nobodies_do_not_log_in(world: World, sign_in: SignIn) -> None:
    robot = identity("robot")
    principal = (await sign_in.account_of(world.org_id, identity())).principal
    account = Account(
        replace(
            principal,
            id=world.org_id,
            kind=PrincipalKind.SERVICE_ACCOUNT,
            subject=robot.subject,
            email=robot.email,
            groups=frozenset(),
        )
    )
    await world.stores.principals.add(account, world.clock())
    with pytest.raises(Denied, match="service account"):
        await sign_in.account_of(world.org_id, robot)
    for nobody in (identity(subject=""), identity(issuer=""), identity(subject="x" * 256), identity(subject="a\0")):
        with pytest.raises(Denied, match="no valid user identifier"):
            await sign_in.account_of(world.org_id, nobody)


async def test_confirming_is_no_new_login_and_for_the_same_person_only(world: World, sign_in: SignIn) -> None:
    ann = await sign_in.account_of(world.org_id, identity(groups=frozenset({"dba"})))
    at = world.clock()
    world.clock.forward(hours=1)
    after = await sign_in.reconfirm(ann, identity(groups=frozenset({"ops"})))
    assert after.last_login_at == at
    assert after.principal.groups == {"admin", "ops"}
    with pytest.raises(Denied, match="a different user"):
        await sign_in.reconfirm(ann, identity("bob"))
