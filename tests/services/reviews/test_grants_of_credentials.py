"""Access that is requested in advance for a credential: for whose, what it admits, and what ends it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import delete
from tests.services.reviews.desk import MEANS, SOURCE, Desk

from postern.domain.features import Feature
from postern.domain.identity.credential import Credential, Grant
from postern.domain.identity.organisation import Organisation
from postern.domain.identity.principal import Account, Principal
from postern.domain.lists import Page
from postern.domain.reviews.review import Choice, Review, ReviewedCredential
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.secret import Secret
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import SSH, ConnectionType, Toggle
from postern.errors import Conflict, Denied, NotFound, Unauthenticated
from postern.services.identity.credentials import make_verifier
from postern.services.reviews.review_requests import ReviewRequired
from postern.services.reviews.review_text import final_state_text
from postern.store.ports.common_ports import Topic
from postern.store.ports.review_ports import ReviewFilter
from postern.store.schema.target_tables import credentials

HOUR = timedelta(hours=1)


async def issue(
    desk: Desk, principal: Principal, connection: str = "shop", maker: Principal | None = None
) -> Credential:
    """It is valid for an hour."""
    return (await desk.services.credentials.issue(principal, connection, 3_600, maker=maker)).credential


async def request(desk: Desk, credential_id: UUID, connection: str = "shop", duration: int = 600) -> Review:
    """By Ann."""
    requested = await desk.services.access_requests.request(
        desk.ann, connection, source=SOURCE, means=MEANS, credential_id=credential_id, duration=duration
    )
    assert requested is not None
    return requested


async def grant_of(desk: Desk, credential: Credential) -> Grant:
    """Return what its client would log in with."""
    grant = await desk.services.access.find_grant(credential.username)
    assert grant is not None
    return grant


async def requested_reviews(desk: Desk) -> Sequence[Review]:
    return (await desk.services.reviews.find(desk.root, ReviewFilter(), Page())).items


async def of_another_user(desk: Desk) -> UUID:
    return (await issue(desk, desk.rita)).id


async def of_an_administrator_issued_by_the_caller(desk: Desk) -> UUID:
    return (await issue(desk, desk.root, maker=desk.ann)).id


async def of_another_organisation(desk: Desk) -> UUID:
    """Of a user there who has Ann's name and address, and a connection of the same name."""
    organisation = Organisation(uuid4(), "elsewhere", desk.world.clock())
    await desk.world.stores.organisations.add(organisation)
    world = replace(desk.world, org_id=organisation.id)
    ann = replace(desk.ann, id=uuid4(), org_id=organisation.id, subject="ann elsewhere")
    await world.stores.principals.add(Account(ann), world.clock())
    await world.add_connection("shop", reviewers=("dba",))
    return (await issue(desk, ann)).id


async def of_nobody(desk: Desk) -> UUID:
    return uuid4()


async def of_another_connection(desk: Desk) -> UUID:
    await desk.world.add_connection("stock", reviewers=("dba",))
    return (await issue(desk, desk.ann, "stock")).id


async def that_was_deleted(desk: Desk) -> UUID:
    return (await forget(desk, await issue(desk, desk.ann))).id


async def of_a_connection_that_is_hidden_now(desk: Desk) -> UUID:
    credential = await issue(desk, desk.ann)
    await desk.switch(Feature.ACCESS_CONTROL, on=True)
    return credential.id


async def of_a_connection_that_was_deleted(desk: Desk) -> UUID:
    """And made again, under the same name."""
    credential = await issue(desk, desk.ann)
    await desk.services.connections.remove(desk.root, "shop")
    await desk.world.add_connection("shop", await desk.world.add_agent("another"), reviewers=("dba",))
    return credential.id


async def forget(desk: Desk, credential: Credential) -> Credential:
    async with desk.world.database.transaction() as transaction:
        await transaction.execute(delete(credentials).where(credentials.c.id == credential.id))
    return credential


@pytest.mark.parametrize(
    "whose",
    [
        of_another_user,
        of_an_administrator_issued_by_the_caller,
        of_another_organisation,
        of_nobody,
        of_another_connection,
        that_was_deleted,
        of_a_connection_that_is_hidden_now,
        of_a_connection_that_was_deleted,
    ],
)
async def test_attack_access_is_requested_for_a_credential_that_is_not_the_callers_there(
    desk: Desk, whose: Callable[[Desk], Awaitable[UUID]]
) -> None:
    """The same words for each, so that they do not tell which credentials exist."""
    credential_id = await whose(desk)
    with pytest.raises(NotFound) as refused:
        await request(desk, credential_id)
    assert refused.value.message == f"connection 'shop' has no credential {credential_id} of yours"
    assert list(await requested_reviews(desk)) == []


async def revoke(desk: Desk, credential: Credential) -> None:
    await desk.services.credentials.revoke_own(desk.ann, credential.id)


async def expire(desk: Desk, credential: Credential) -> None:
    desk.world.clock.forward(hours=1)


async def switch_credentials_off(desk: Desk, credential: Credential) -> None:
    await desk.switch(Feature.NATIVE_CREDENTIALS, on=False)


async def switch_reviews_off(desk: Desk, credential: Credential) -> None:
    await desk.switch(Feature.REVIEWS, on=False)


async def close_the_connection(desk: Desk, credential: Credential) -> None:
    await desk.world.overwrite(desk.shop, access_mode_connect=Toggle.DISABLED)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (revoke, "this credential was revoked"),
        (expire, "this credential expired"),
        (switch_credentials_off, "native-credentials is switched off"),
        (switch_reviews_off, "reviews are switched off"),
        (close_the_connection, "access mode connect is disabled"),
    ],
)
async def test_own_credential_that_admits_nobody_is_refused_with_the_reason(
    desk: Desk, change: Callable[[Desk, Credential], Awaitable[None]], reason: str
) -> None:
    credential = await issue(desk, desk.ann)
    await change(desk, credential)
    with pytest.raises(Denied, match=reason) as refused:
        await request(desk, credential.id)
    assert not isinstance(refused.value, ReviewRequired)
    assert list(await requested_reviews(desk)) == []


async def test_approval_admits_this_credential_from_this_address_and_nothing_else(desk: Desk) -> None:
    await desk.world.add_connection("stock", reviewers=("dba",))
    credential, other, elsewhere = [
        await grant_of(desk, await issue(desk, desk.ann, name)) for name in ("shop", "shop", "stock")
    ]
    admit = desk.services.access.admit
    review = await request(desk, credential.credential_id)
    with pytest.raises(ReviewRequired) as required:
        await admit(credential, source=SOURCE)
    assert required.value.requested_access.waiting == review  # its client waits for the same review
    await desk.approve(review)
    permit = await admit(credential, source=SOURCE)
    assert (permit.review_id, permit.credential_id) == (review.id, credential.credential_id)
    assert (await request(desk, credential.credential_id)).id == review.id
    for grant, source in ((other, SOURCE), (elsewhere, SOURCE), (credential, "192.0.2.2")):
        with pytest.raises(ReviewRequired):
            await admit(grant, source=source)
    await desk.requested_access()  # the login that requested it has no access
    await desk.requested_access(means=f"credential:{other.credential_id}")


async def test_approval_for_the_login_admits_no_credential(desk: Desk) -> None:
    credential = await issue(desk, desk.ann)
    await desk.granted()
    review = await request(desk, credential.id)
    assert review.binding.means == f"credential:{credential.id}"
    with pytest.raises(ReviewRequired):
        await desk.services.access.admit(await grant_of(desk, credential), source=SOURCE)


async def test_access_ends_with_the_credential_and_a_new_one_does_not_inherit_it(desk: Desk) -> None:
    """Rotated: the old one is valid for ten more minutes, whatever was approved."""
    old = await issue(desk, desk.ann)
    await desk.approve(await request(desk, old.id, duration=7_200))
    access = desk.services.access
    permit = await access.admit(await grant_of(desk, old), source=SOURCE)
    assert permit.expires_at == old.expires_at == desk.world.clock() + HOUR
    new = await issue(desk, desk.ann)
    await desk.services.credentials.retire(old, timedelta(minutes=10))
    soon = desk.world.clock() + timedelta(minutes=10)
    assert (await access.renew(permit)).expires_at == soon
    assert (await access.admit(await grant_of(desk, old), source=SOURCE)).expires_at == soon
    with pytest.raises(ReviewRequired):
        await access.admit(await grant_of(desk, new), source=SOURCE)
    desk.world.clock.now = soon
    assert "expired" in str(await access.still_allowed(permit))
    with pytest.raises(Denied, match="expired"):
        await access.admit(await grant_of(desk, old), source=SOURCE)


@pytest.mark.parametrize(("end", "reason"), [(revoke, "was revoked"), (forget, "was deleted"), (expire, "expired")])
async def test_attack_credential_ends_while_its_access_goes_on(
    desk: Desk, end: Callable[[Desk, Credential], Awaitable[object]], reason: str
) -> None:
    """Neither what runs nor what comes is left with the review alone, which would end later than the credential."""
    credential = await issue(desk, desk.ann)
    review = await request(desk, credential.id, duration=7_200)
    await desk.approve(review)
    access, grant = desk.services.access, await grant_of(desk, credential)
    permit = await access.admit(grant, source=SOURCE)
    await end(desk, credential)
    assert reason in str(await access.still_allowed(permit))
    with pytest.raises(Denied, match=reason):
        await access.renew(permit)
    again = await access.find_grant(credential.username)
    if again is not None:
        with pytest.raises(Denied, match=reason):
            await access.admit(again, source=SOURCE)
    with pytest.raises(ReviewRequired):
        await access.admit(await grant_of(desk, await issue(desk, desk.ann)), source=SOURCE)
    await desk.requested_access()
    with pytest.raises((Denied, NotFound)):
        await request(desk, credential.id)


async def test_who_issued_the_credential_does_not_approve_its_access(desk: Desk) -> None:
    credential = await issue(desk, desk.ann, maker=desk.rita)
    review = await request(desk, credential.id)
    assert [maker.principal_id for maker in review.makers] == [desk.rita.id]
    for requester in (desk.rita, desk.ann):
        with pytest.raises((Denied, NotFound)):
            await desk.approve(review, requester)
    assert (await desk.approve(review, desk.rolf)).binding.means == f"credential:{credential.id}"


async def test_inactive_user_is_not_admitted_by_what_was_approved(desk: Desk) -> None:
    credential = await issue(desk, desk.ann)
    await desk.approve(await request(desk, credential.id))
    await desk.services.users.update(desk.root, str(desk.ann.id), {"status": "inactive"})
    with pytest.raises((Denied, Unauthenticated)):
        await desk.services.access.admit(await grant_of(desk, credential), source=SOURCE)


async def test_access_to_a_server_for_commands_alone_is_requested_for_a_credential(desk: Desk) -> None:
    """A login cannot request it: SSH clients do not use it."""
    server = await desk.world.add_connection(
        "server",
        type=ConnectionType.APPLICATION,
        subtype=SSH,
        reviewers=("dba",),
        access_mode_connect=Toggle.DISABLED,
    )
    credential = Credential(
        uuid4(), desk.world.org_id, desk.ann.id, server.id, "ann-server-abcdef", desk.world.clock(), None
    )
    await desk.world.stores.credentials.add(credential, make_verifier(Secret("password")))
    review = await request(desk, credential.id, "server")
    await desk.approve(review)
    permit = await desk.services.access.admit(await grant_of(desk, credential), source=SOURCE, modes=(Verb.EXEC,))
    assert permit.review_id == review.id
    with pytest.raises(Denied, match="access mode connect is disabled"):
        await desk.services.access.admit(await grant_of(desk, credential), source=SOURCE, modes=(Verb.CONNECT,))


async def test_revoking_a_credential_withdraws_its_pending_reviews_and_no_others(desk: Desk) -> None:
    revoked, other = await issue(desk, desk.ann), await issue(desk, desk.ann)
    review, untouched = await request(desk, revoked.id), await request(desk, other.id)
    assert review.credential == ReviewedCredential(revoked.id, revoked.username)
    await desk.services.credentials.revoke_own(desk.ann, revoked.id)
    withdrawn = await desk.services.reviews.get(desk.ann, str(review.id))
    assert withdrawn.status is ReviewStatus.WITHDRAWN
    assert withdrawn.withdrawal_reason == f"credential {revoked.username!r} was revoked"
    assert final_state_text(withdrawn) == f"it was withdrawn: {withdrawn.withdrawal_reason}"
    assert (await desk.services.reviews.get(desk.ann, str(untouched.id))).status is ReviewStatus.PENDING
    signal = desk.world.signals.of(Topic.REVIEW_CHANGED)[-1]
    assert (signal["review_id"], signal["status"]) == (str(review.id), "WITHDRAWN")


async def test_background_job_withdraws_reviews_of_credentials_that_expired(desk: Desk) -> None:
    credential = (await desk.services.credentials.issue(desk.ann, "shop", 60)).credential
    review = await request(desk, credential.id, duration=30)
    await desk.services.reviews.settle()
    assert (await desk.services.reviews.get(desk.ann, str(review.id))).status is ReviewStatus.PENDING
    desk.world.clock.forward(seconds=60)
    with pytest.raises(Conflict, match=f"credential '{credential.username}' has expired, so there is nothing"):
        await desk.services.reviews.decide(desk.rita, str(review.id), Choice.APPROVED)
    await desk.services.reviews.settle()
    withdrawn = await desk.services.reviews.get(desk.ann, str(review.id))
    assert withdrawn.withdrawal_reason == f"credential {credential.username!r} has expired"


async def test_rotating_a_credential_withdraws_its_pending_reviews_only_once_it_has_expired(desk: Desk) -> None:
    credential = await issue(desk, desk.ann)
    review = await request(desk, credential.id)
    await desk.services.credentials.retire(credential, timedelta(minutes=5))
    assert (await desk.services.reviews.get(desk.ann, str(review.id))).status is ReviewStatus.PENDING
    await desk.services.credentials.retire(credential, timedelta(0))
    assert (await desk.services.reviews.get(desk.ann, str(review.id))).status is ReviewStatus.WITHDRAWN
