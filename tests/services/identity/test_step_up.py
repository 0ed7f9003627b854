"""Step-up: a login is confirmed by a second factor or a password, and what a stolen session gets out of it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.services.identity.test_second_factors import PASSWORD, Scene, scene
from tests.support.authenticator import Browser
from tests.support.world import API_URL, CLIENT

from postern.domain.identity.login import LoginMethod
from postern.domain.identity.second_factor import FactorKind
from postern.domain.secret import Secret
from postern.errors import Denied, Invalid, TooMany, Unauthenticated
from postern.services.identity.logins.authentication import Caller
from postern.services.identity.logins.factor_check import FactorAnswer
from postern.services.identity.logins.logins import FRESH
from postern.services.identity.step_up import CHALLENGE_LIFE, StepUpProof

__all__ = ["scene"]

KNOWN = StepUpProof(PASSWORD)


async def is_fresh(scene: Scene) -> bool:
    login = (await scene.caller()).login
    assert login is not None
    return login.is_fresh(scene.world.clock.now)


async def stale_caller(scene: Scene) -> Caller:
    scene.world.clock.forward(seconds=FRESH.total_seconds())
    assert not await is_fresh(scene)
    return await scene.caller()


async def test_login_is_fresh_for_ten_minutes_and_a_refresh_does_not_extend_that(scene: Scene) -> None:
    assert await is_fresh(scene)
    scene.world.clock.forward(seconds=FRESH.total_seconds() - 1)
    assert await is_fresh(scene)
    refreshed = await scene.services.own_logins.refresh(await scene.caller())
    scene.token = refreshed.token
    scene.world.clock.forward(seconds=1)
    assert not await is_fresh(scene)


async def test_password_confirms_the_login_of_an_account_without_factor(scene: Scene) -> None:
    caller = await stale_caller(scene)
    confirmed = await scene.services.step_up.confirm(caller, KNOWN, "::1")
    assert confirmed.fresh_until == scene.world.clock.now + timedelta(minutes=10)
    assert await is_fresh(scene)


async def test_other_logins_of_the_user_stay_stale(scene: Scene) -> None:
    other = await scene.password()
    caller = await stale_caller(scene)
    await scene.services.step_up.confirm(caller, KNOWN, "::1")
    scene.token = other.token  # type: ignore[union-attr]
    assert not await is_fresh(scene)


async def test_wrong_password_confirms_nothing_and_is_throttled(scene: Scene) -> None:
    caller = await stale_caller(scene)
    for _ in range(10):
        with pytest.raises(Denied, match="is wrong"):
            await scene.services.step_up.confirm(caller, StepUpProof(Secret("guess")), "::1")
    with pytest.raises(TooMany):
        await scene.services.step_up.confirm(caller, KNOWN, "::1")
    assert not await is_fresh(scene)


async def test_password_is_not_enough_where_there_is_a_factor(scene: Scene) -> None:
    await scene.enrol_app()
    caller = await stale_caller(scene)
    with pytest.raises(Invalid, match="has a second factor"):
        await scene.services.step_up.confirm(caller, KNOWN, "::1")
    assert not await is_fresh(scene)


async def test_code_confirms_once_and_a_wrong_one_leaves_the_login_valid(scene: Scene) -> None:
    await scene.enrol_app()
    caller = await stale_caller(scene)
    with pytest.raises(Denied, match="not accepted"):
        await scene.services.step_up.confirm(caller, StepUpProof(answer=scene.coded(Secret("000000"))), "::1")
    proof = StepUpProof(answer=scene.coded())
    await scene.services.step_up.confirm(caller, proof, "::1")
    assert await is_fresh(scene)
    with pytest.raises(Denied, match="not accepted"):
        await scene.services.step_up.confirm(await scene.caller(), proof, "::1")


async def test_recovery_code_confirms(scene: Scene) -> None:
    codes = await scene.enrol_app()
    caller = await stale_caller(scene)
    answer = FactorAnswer(FactorKind.RECOVERY, Secret(codes[0]))
    await scene.services.step_up.confirm(caller, StepUpProof(answer=answer), "::1")
    assert await is_fresh(scene)


async def test_authenticator_confirms_by_a_challenge_that_works_once(scene: Scene) -> None:
    browser = Browser(API_URL)
    await scene.enrol_authenticator(browser)
    caller = await stale_caller(scene)
    begun = await scene.services.step_up.begin(caller)
    assert begun.request is not None
    answer = FactorAnswer(FactorKind.WEBAUTHN, assertion=browser.get(dict(begun.request)))
    proof = StepUpProof(answer=answer, ticket=begun.ticket)
    await scene.services.step_up.confirm(caller, proof, "::1")
    assert await is_fresh(scene)
    with pytest.raises(Denied, match="step up was already used"):
        await scene.services.step_up.confirm(caller, proof, "::1")


async def test_attack_challenge_of_another_login_or_an_older_one_is_refused(scene: Scene) -> None:
    browser = Browser(API_URL)
    await scene.enrol_authenticator(browser)
    scene.world.clock.forward(seconds=FRESH.total_seconds())
    mine = await scene.caller()
    step = await scene.ticket()
    assert step.request is not None
    other_answer = FactorAnswer(FactorKind.WEBAUTHN, assertion=browser.get(dict(step.request)))
    other = await scene.caller((await scene.second(step, other_answer)).token)

    older = await scene.services.step_up.begin(mine)
    newer = await scene.services.step_up.begin(other)
    for begun, caller in ((older, mine), (newer, mine)):
        assert begun.request is not None
        answer = FactorAnswer(FactorKind.WEBAUTHN, assertion=browser.get(dict(begun.request)))
        with pytest.raises(Denied):
            await scene.services.step_up.confirm(caller, StepUpProof(answer=answer, ticket=begun.ticket), "::1")
    assert not await is_fresh(scene)


async def test_attack_challenge_expires_and_assertion_without_ticket_is_refused(scene: Scene) -> None:
    browser = Browser(API_URL)
    await scene.enrol_authenticator(browser)
    caller = await stale_caller(scene)
    begun = await scene.services.step_up.begin(caller)
    assert begun.request is not None
    answer = FactorAnswer(FactorKind.WEBAUTHN, assertion=browser.get(dict(begun.request)))
    with pytest.raises(Invalid, match="ticket: is required"):
        await scene.services.step_up.confirm(caller, StepUpProof(answer=answer), "::1")
    scene.world.clock.forward(seconds=CHALLENGE_LIFE.total_seconds())
    with pytest.raises(Denied):
        await scene.services.step_up.confirm(caller, StepUpProof(answer=answer, ticket=begun.ticket), "::1")
    assert not await is_fresh(scene)


async def test_attack_ticket_of_a_login_in_progress_confirms_nothing(scene: Scene) -> None:
    """The ticket of POST /localauth/second-factor is issued for the password alone."""
    browser = Browser(API_URL)
    await scene.enrol_authenticator(browser)
    caller = await stale_caller(scene)
    step = await scene.ticket()
    assert step.request is not None
    answer = FactorAnswer(FactorKind.WEBAUTHN, assertion=browser.get(dict(step.request)))
    with pytest.raises(Denied):
        await scene.services.step_up.confirm(caller, StepUpProof(answer=answer, ticket=step.ticket), "::1")


async def test_attack_one_code_confirms_one_of_many_concurrent_requests(scene: Scene) -> None:
    await scene.enrol_app()
    caller = await stale_caller(scene)
    proof = StepUpProof(answer=scene.coded())
    results = await asyncio.gather(
        *(scene.services.step_up.confirm(caller, proof, "::1") for _ in range(5)), return_exceptions=True
    )
    assert sum(not isinstance(result, Exception) for result in results) == 1


async def test_begin_lists_the_factors_and_makes_no_challenge_without_an_authenticator(scene: Scene) -> None:
    begun = await scene.services.step_up.begin(await scene.caller())
    assert (begun.factors, begun.ticket, begun.request) == ((), None, None)
    await scene.enrol_app()
    begun = await scene.services.step_up.begin(await scene.caller())
    assert [factor.kind for factor in begun.factors] == [FactorKind.TOTP]
    assert begun.ticket is None


async def test_callers_without_a_local_login_are_told_what_to_do(scene: Scene) -> None:
    caller = await scene.caller()
    with pytest.raises(Denied, match="API keys"):
        await scene.services.step_up.confirm(Caller(caller.principal), KNOWN, "::1")
    account = await scene.services.users.own(scene.ann)
    provided = await scene.services.logins.open(account, LoginMethod.OIDC, CLIENT)
    with pytest.raises(Denied, match="identity provider"):
        await scene.services.step_up.begin(Caller(caller.principal, login=provided.login))


async def test_ended_login_cannot_be_confirmed(scene: Scene) -> None:
    await scene.services.own_logins.end_this(await scene.caller())
    with pytest.raises(Unauthenticated):
        await scene.caller()
