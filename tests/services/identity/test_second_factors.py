"""Second factors: codes, authenticators, recovery codes, and what attackers do with them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pyotp
import pytest
from tests.support.authenticator import Browser
from tests.support.world import API_URL, CLIENT, MACHINE, World

from postern.domain.identity.auth_config import AuthConfig
from postern.domain.identity.login import LoginMethod
from postern.domain.identity.principal import Principal, PrincipalStatus
from postern.domain.identity.second_factor import FactorKind
from postern.domain.secret import Secret
from postern.domain.server import ServerConfig
from postern.errors import Denied, Invalid, NotFound, TooMany, Unauthenticated
from postern.services.bundle import Services
from postern.services.identity.logins import recovery_codes, totp
from postern.services.identity.logins.authentication import Caller
from postern.services.identity.logins.authenticators import Authenticators, Key, challenge_text, new_challenge
from postern.services.identity.logins.factor_check import FactorAnswer
from postern.services.identity.logins.local_login import SecondStep
from postern.services.identity.logins.logins import OpenedLogin
from postern.services.identity.logins.second_factors import ENROLMENT_LIFE, JUST_LOGGED_IN, MOST, FactorProof

PASSWORD = Secret("a long enough password")
KNOWN = FactorProof(PASSWORD)


@dataclass
class Scene:
    """Ann, who is logged in; `key` is that of her authenticator app once she has one."""

    world: World
    services: Services
    root: Principal
    ann: Principal
    token: Secret
    key: str = ""

    async def caller(self, token: Secret | None = None) -> Caller:
        return await self.services.authentication.enrolling_caller(token or self.token, address="::1")

    async def password(self) -> OpenedLogin | SecondStep:
        return await self.services.local_login.login("ann@example.com", PASSWORD, CLIENT)

    async def ticket(self) -> SecondStep:
        step = await self.password()
        assert isinstance(step, SecondStep)
        return step

    def code(self, steps: int = 0) -> Secret:
        return Secret(pyotp.TOTP(self.key).at(self.world.clock.now + timedelta(seconds=30 * steps)))

    def coded(self, code: Secret | None = None) -> FactorAnswer:
        return FactorAnswer(FactorKind.TOTP, code or self.code())

    async def second(self, step: SecondStep, answer: FactorAnswer) -> OpenedLogin:
        return await self.services.local_login.second_step(step.ticket, answer, CLIENT)

    async def enrol_app(self) -> list[str]:
        caller = await self.caller()
        enrolment = await self.services.second_factors.enrol(caller, FactorKind.TOTP, "phone", KNOWN, "::1")
        assert enrolment.key is not None
        self.key = enrolment.key.reveal()
        codes = await self.services.second_factors.confirm(caller, enrolment.factor.id, self.code(), None)
        self.world.clock.forward(seconds=60)  # the code that confirmed is used up
        return codes

    async def enrol_authenticator(self, browser: Browser) -> None:
        caller = await self.caller()
        enrolment = await self.services.second_factors.enrol(caller, FactorKind.WEBAUTHN, "stick", KNOWN, "::1")
        assert enrolment.creation is not None
        made = browser.create(dict(enrolment.creation))
        await self.services.second_factors.confirm(caller, enrolment.factor.id, None, made)

    async def require(self, required: bool = True) -> None:
        await self.services.auth_configs.put(self.world.org_id, AuthConfig(require_second_factor=required))


@pytest.fixture
async def scene(world: World) -> Scene:
    services = world.services()
    root = await world.add_user("root", "admin")
    ann = (await services.users.create(root, {"email": "ann@example.com", "password": PASSWORD})).principal
    opened = await services.local_login.login("ann@example.com", PASSWORD, CLIENT)
    assert isinstance(opened, OpenedLogin)
    return Scene(world, services, root, ann, opened.token)


@pytest.mark.parametrize(
    ("seconds", "code"),  # RFC 6238 appendix B, SHA-1; the last six of its eight digits (RFC 4226 section 5.3)
    [
        (59, "287082"),
        (1111111109, "081804"),
        (1111111111, "050471"),
        (1234567890, "005924"),
        (2000000000, "279037"),
        (20000000000, "353130"),
    ],
)
def test_the_codes_of_rfc_6238(seconds: int, code: str) -> None:
    key = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"  # "12345678901234567890"
    moment = datetime.fromtimestamp(seconds, UTC)
    assert totp.step_of(key, code, moment) == seconds // 30
    assert totp.step_of(key, code, moment + timedelta(seconds=30)) == seconds // 30
    assert totp.step_of(key, code, moment - timedelta(seconds=30)) == seconds // 30
    for away in (-90, -61, 61, 90):
        assert totp.step_of(key, code, moment + timedelta(seconds=away)) is None
    for wrong in ("", code[1:], f" {code}", f"{code}0", "ä", "\ud800"):
        assert totp.step_of(key, wrong, moment) is None


async def test_the_password_alone_is_not_enough(scene: Scene) -> None:
    await scene.enrol_app()
    step = await scene.ticket()
    assert [factor.name for factor in step.factors] == ["phone"]
    assert step.request is None
    for token in (step.ticket, Secret(f"Bearer {step.ticket.reveal()}")):
        with pytest.raises(Unauthenticated):
            await scene.caller(token)
    opened = await scene.second(step, scene.coded())
    assert (await scene.caller(opened.token)).principal.id == scene.ann.id
    with pytest.raises(Unauthenticated):
        await scene.second(step, scene.coded(scene.code(1)))


async def test_a_code_is_good_once(scene: Scene) -> None:
    """Replayed code: read over a shoulder, used within its half minute."""
    await scene.enrol_app()
    code = scene.code()
    await scene.second(await scene.ticket(), scene.coded(code))
    with pytest.raises(Unauthenticated):
        await scene.second(await scene.ticket(), scene.coded(code))
    with pytest.raises(Unauthenticated):  # nor one of the step before, once a later one was used
        await scene.second(await scene.ticket(), scene.coded(scene.code(-1)))
    assert await scene.second(await scene.ticket(), scene.coded(scene.code(1)))


async def test_the_code_that_confirmed_is_used_up(scene: Scene) -> None:
    await scene.enrol_app()
    scene.world.clock.forward(seconds=-60)
    with pytest.raises(Unauthenticated):
        await scene.second(await scene.ticket(), scene.coded())


async def test_codes_cannot_be_guessed(scene: Scene) -> None:
    """Case 58, unlimited tries: five for a ticket, ten in an hour for an account, whichever tickets."""
    codes = await scene.enrol_app()
    step = await scene.ticket()
    for _ in range(5):
        with pytest.raises(Unauthenticated):
            await scene.second(step, scene.coded(Secret("000000")))
    with pytest.raises(TooMany):
        await scene.second(step, scene.coded())
    other = await scene.ticket()
    for _ in range(5):
        with pytest.raises(Unauthenticated):
            await scene.second(other, FactorAnswer(FactorKind.RECOVERY, Secret("aaaa-bbbb-cccc-dddd")))
    for answer in (scene.coded(), FactorAnswer(FactorKind.RECOVERY, Secret(codes[0]))):
        with pytest.raises(TooMany):
            await scene.second(await scene.ticket(), answer)
    scene.world.clock.forward(hours=1)
    assert await scene.second(await scene.ticket(), scene.coded())


async def test_a_ticket_ends_with_time_and_with_the_password(scene: Scene) -> None:
    await scene.enrol_app()
    old = await scene.ticket()
    scene.world.clock.forward(minutes=5)
    with pytest.raises(Unauthenticated):
        await scene.second(old, scene.coded())
    changed = await scene.ticket()
    await scene.services.accounts.set_password(scene.ann, Secret("another long password"), "password")
    with pytest.raises(Unauthenticated):
        await scene.second(changed, scene.coded())


async def test_an_account_that_became_inactive_does_not_get_through_the_second_step(scene: Scene) -> None:
    await scene.enrol_app()
    step = await scene.ticket()
    await scene.services.users.update(scene.root, scene.ann.email, {"status": PrincipalStatus.INACTIVE})
    with pytest.raises(Unauthenticated):
        await scene.second(step, scene.coded())


async def test_recovery_codes_are_good_once_each(scene: Scene) -> None:
    codes = await scene.enrol_app()
    assert len(set(codes)) == recovery_codes.COUNT == 10
    typed = f" {codes[3].upper().replace('-', ' ')} "
    await scene.second(await scene.ticket(), FactorAnswer(FactorKind.RECOVERY, Secret(typed)))
    with pytest.raises(Unauthenticated):
        await scene.second(await scene.ticket(), FactorAnswer(FactorKind.RECOVERY, Secret(codes[3])))
    assert await scene.second(await scene.ticket(), FactorAnswer(FactorKind.RECOVERY, Secret(codes[4])))
    kept = await scene.world.stores.second_factors.of(scene.ann.id)
    assert not [one for one in kept if any(code.encode() in one.material for code in codes)]
    step = await scene.ticket()
    opened = await scene.second(step, scene.coded())
    renewed = await scene.services.second_factors.new_recovery_codes(await scene.caller(opened.token), KNOWN, "::1")
    assert not set(renewed) & set(codes)
    with pytest.raises(Unauthenticated):
        await scene.second(await scene.ticket(), FactorAnswer(FactorKind.RECOVERY, Secret(codes[5])))
    assert await scene.second(await scene.ticket(), FactorAnswer(FactorKind.RECOVERY, Secret(renewed[0])))


async def test_one_user_s_codes_are_not_another_s(scene: Scene) -> None:
    codes = await scene.enrol_app()
    await scene.services.users.create(scene.root, {"email": "bob@example.com", "password": PASSWORD})
    opened = await scene.services.local_login.login("bob@example.com", PASSWORD, CLIENT)
    assert isinstance(opened, OpenedLogin)
    bob = Scene(scene.world, scene.services, scene.root, opened_principal(opened, scene), opened.token)
    await bob.enrol_app()
    step = await scene.services.local_login.login("bob@example.com", PASSWORD, CLIENT)
    assert isinstance(step, SecondStep)
    for answer in (scene.coded(), FactorAnswer(FactorKind.RECOVERY, Secret(codes[0]))):
        with pytest.raises(Unauthenticated):
            await scene.second(step, answer)


def opened_principal(opened: OpenedLogin, scene: Scene) -> Principal:
    return Principal(opened.login.user_id, scene.ann.org_id, str(opened.login.user_id), "bob@example.com", "bob")


async def signed_in(scene: Scene, browser: Browser, **how: Any) -> OpenedLogin:
    step = await scene.ticket()
    assert step.request is not None
    return await scene.second(step, FactorAnswer(FactorKind.WEBAUTHN, None, browser.get(dict(step.request), **how)))


async def test_an_authenticator_is_a_second_factor(scene: Scene) -> None:
    browser = Browser(API_URL)
    await scene.enrol_authenticator(browser)
    opened = await signed_in(scene, browser)
    assert (await scene.caller(opened.token)).principal.id == scene.ann.id
    (factor,) = (one for one in await scene.services.second_factors.own(scene.ann) if one.kind is FactorKind.WEBAUTHN)
    assert factor.counter == 1
    assert await signed_in(scene, browser)


async def test_an_authenticator_that_does_not_count_is_fine(scene: Scene) -> None:
    browser = Browser(API_URL)
    await scene.enrol_authenticator(browser)
    for _ in range(2):
        browser.device.sign_count = -1
        assert await signed_in(scene, browser)


async def test_a_cloned_authenticator_is_noticed(scene: Scene) -> None:
    browser = Browser(API_URL)
    await scene.enrol_authenticator(browser)
    for _ in range(3):
        await signed_in(scene, browser)
    browser.device.sign_count = 1  # the copy that was made back then
    with pytest.raises(Unauthenticated):
        await signed_in(scene, browser)
    browser.device.sign_count = 2  # the very counter that was last seen
    with pytest.raises(Unauthenticated):
        await signed_in(scene, browser)


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://localhost",
        "http://localhost:7481",
        "https://localhost:7480",
        "http://localhost.evil.example:7480",
    ],
)
async def test_a_page_of_another_origin_gets_nothing(scene: Scene, origin: str) -> None:
    """Phishing: the signature says which page asked for it."""
    browser = Browser(API_URL)
    await scene.enrol_authenticator(browser)
    with pytest.raises(Unauthenticated, match="not accepted"):
        await signed_in(scene, browser, origin=origin)
    opened = await signed_in(scene, browser)
    caller = await scene.caller(opened.token)
    enrolment = await scene.services.second_factors.enrol(caller, FactorKind.WEBAUTHN, "b", KNOWN, "::1")
    other = Browser(origin)
    with pytest.raises(Invalid, match="credential"):
        await scene.services.second_factors.confirm(
            caller, enrolment.factor.id, None, other.create(dict(enrolment.creation or {}))
        )


async def test_an_assertion_is_good_once(scene: Scene) -> None:
    """Replayed assertion: for the same ticket, and for a new one."""
    browser = Browser(API_URL)
    await scene.enrol_authenticator(browser)
    step = await scene.ticket()
    assert step.request is not None
    answer = FactorAnswer(FactorKind.WEBAUTHN, None, browser.get(dict(step.request)))
    await scene.second(step, answer)
    for again in (step, await scene.ticket()):
        with pytest.raises(Unauthenticated):
            await scene.second(again, answer)


async def test_another_key_or_a_damaged_answer_is_refused(scene: Scene) -> None:
    browser, stranger = Browser(API_URL), Browser(API_URL)
    await scene.enrol_authenticator(browser)
    step = await scene.ticket()
    assert step.request is not None
    options = dict(step.request)
    stranger.device.cred_init("localhost", b"")
    foreign = stranger.get(options)
    borrowed = foreign | {"id": browser.get(options)["id"], "rawId": browser.get(options)["rawId"]}
    good = browser.get(options)
    damaged: list[dict[str, Any]] = [
        {},
        {"rawId": 1},
        {"id": "ä"},
        {"rawId": good["rawId"]},
        good | {"response": {}},
        good | {"response": 1},
    ]
    damaged.append(good | {"response": good["response"] | {"signature": "AAAA"}})
    damaged.append(good | {"response": good["response"] | {"clientDataJSON": "e30"}})
    refused: list[dict[str, Any] | None] = [foreign, borrowed, None, *damaged]
    for assertion in refused:
        step = await scene.ticket()
        with pytest.raises(Unauthenticated):
            await scene.second(step, FactorAnswer(FactorKind.WEBAUTHN, None, assertion))
    assert await signed_in(scene, browser)


async def test_a_damaged_registration_is_refused(scene: Scene) -> None:
    caller = await scene.caller()
    enrolment = await scene.services.second_factors.enrol(caller, FactorKind.WEBAUTHN, "stick", KNOWN, "::1")
    good = Browser(API_URL).create(dict(enrolment.creation or {}))
    answer = good["response"]
    damaged: list[dict[str, Any]] = [{}, good | {"response": 1}, good | {"rawId": "AAAA"}, good | {"type": "other"}]
    damaged.append(good | {"response": answer | {"attestationObject": "AAAA"}})
    damaged.append(good | {"response": answer | {"attestationObject": ""}})
    damaged.append(good | {"response": answer | {"clientDataJSON": "e30"}})
    for credential in damaged:
        with pytest.raises(Invalid):
            await scene.services.second_factors.confirm(caller, enrolment.factor.id, None, credential)
    await scene.services.second_factors.confirm(caller, enrolment.factor.id, None, good)


class At:
    """A server at `url`."""

    def __init__(self, url: str) -> None:
        self.config = replace(MACHINE.config, api_url=url)

    async def current(self) -> ServerConfig:
        return self.config


async def test_webauthn_needs_a_host_name() -> None:
    person = Principal(uuid4(), uuid4(), "x", "ann@example.com", "Ann")
    for url in ("https://192.0.2.1:7480", "https://[2001:db8::1]:7480"):
        with pytest.raises(Invalid, match="POSTERN_PUBLIC_HOST"):
            await Authenticators(At(url)).registration_options(person, new_challenge(), [])
    options = await Authenticators(At("https://pg.example:443")).registration_options(person, new_challenge(), [])
    assert options["rp"]["id"] == "pg.example"
    challenge = new_challenge()
    made = Browser("https://pg.example").create(options | {"challenge": challenge_text(challenge)})
    key, counter = await Authenticators(At("https://pg.example:443")).verify_registration(made, challenge)
    assert key == Key.load(key.dump())
    assert counter == 0


async def test_a_half_logged_in_session_can_neither_enrol_nor_regenerate(scene: Scene) -> None:
    """Case 63: the ticket between the two steps is no token, and a stolen token alone changes nothing."""
    await scene.enrol_app()
    step = await scene.ticket()
    with pytest.raises(Unauthenticated):
        await scene.caller(step.ticket)
    opened = await scene.second(step, scene.coded())
    stolen = await scene.caller(opened.token)
    factors = scene.services.second_factors
    (own,) = (one for one in await factors.own(scene.ann) if one.kind is FactorKind.TOTP)
    wrong = FactorProof(Secret("wrong"))
    for proof in (FactorProof(), wrong):
        with pytest.raises(Denied):
            await factors.enrol(stolen, FactorKind.TOTP, "mine", proof, "::1")
        with pytest.raises(Denied):
            await factors.new_recovery_codes(stolen, proof, "::1")
        with pytest.raises(Denied):
            await factors.remove(stolen, own.id, proof, "::1")
    with pytest.raises(Unauthenticated):
        await factors.remove(stolen, own.id, FactorProof(None, scene.coded(Secret("000000"))), "::1")
    assert len(await factors.own(scene.ann)) == 11
    scene.world.clock.forward(seconds=60)
    await factors.remove(stolen, own.id, FactorProof(None, scene.coded()), "::1")
    assert await factors.own(scene.ann) == []
    assert isinstance(await scene.password(), OpenedLogin)


async def test_a_factor_counts_once_it_is_proved(scene: Scene) -> None:
    caller = await scene.caller()
    factors = scene.services.second_factors
    enrolment = await factors.enrol(caller, FactorKind.TOTP, "phone", KNOWN, "::1")
    assert await factors.own(scene.ann) == []
    assert isinstance(await scene.password(), OpenedLogin)
    assert enrolment.key is not None
    scene.key = enrolment.key.reveal()
    for wrong in (Secret("000000"), None):
        with pytest.raises(Invalid):
            await factors.confirm(caller, enrolment.factor.id, wrong, None)
    scene.world.clock.forward(seconds=ENROLMENT_LIFE.total_seconds())
    with pytest.raises(Invalid, match="in time"):
        await factors.confirm(caller, enrolment.factor.id, scene.code(), None)
    newer = await factors.enrol(caller, FactorKind.TOTP, "phone", KNOWN, "::1")
    with pytest.raises(NotFound):
        await factors.confirm(caller, enrolment.factor.id, scene.code(), None)
    assert newer.key is not None
    scene.key = newer.key.reveal()
    await factors.confirm(caller, newer.factor.id, scene.code(), None)
    with pytest.raises(NotFound):
        await factors.confirm(caller, newer.factor.id, scene.code(1), None)


async def test_the_first_factor_ends_the_logins_that_had_none(scene: Scene) -> None:
    other = await scene.password()
    assert isinstance(other, OpenedLogin)
    await scene.enrol_app()
    assert (await scene.caller()).principal.id == scene.ann.id
    with pytest.raises(Unauthenticated):
        await scene.caller(other.token)


async def test_there_is_a_limit_to_factors(scene: Scene) -> None:
    await scene.enrol_app()
    for _ in range(MOST - 1):
        await scene.enrol_app()
    with pytest.raises(Invalid, match="already"):
        await scene.services.second_factors.enrol(await scene.caller(), FactorKind.TOTP, "x", KNOWN, "::1")
    for name in ("", "x" * 256, "a\nb"):
        with pytest.raises(Invalid):
            await scene.services.second_factors.enrol(await scene.caller(), FactorKind.TOTP, name, KNOWN, "::1")


async def test_an_organisation_can_require_a_second_factor(scene: Scene) -> None:
    before = scene.token
    await scene.require()
    assert (await scene.caller(before)).must_enrol
    with pytest.raises(Denied, match="requires a second factor"):
        await scene.services.authentication.caller(before, address="::1")
    opened = await scene.password()
    assert isinstance(opened, OpenedLogin)
    caller = await scene.caller(opened.token)
    assert caller.must_enrol
    factors = scene.services.second_factors
    enrolment = await factors.enrol(
        caller, FactorKind.TOTP, "phone", FactorProof(), "::1"
    )  # the password was just given
    assert enrolment.key is not None
    scene.key = enrolment.key.reveal()
    await factors.confirm(caller, enrolment.factor.id, scene.code(), None)
    caller = await scene.caller(opened.token)
    assert not caller.must_enrol
    with pytest.raises(Unauthenticated):
        await scene.caller(before)
    (own,) = (one for one in await factors.own(scene.ann) if one.kind is FactorKind.TOTP)
    with pytest.raises(Invalid, match="requires"):
        await factors.remove(caller, own.id, KNOWN, "::1")


async def test_a_factor_that_is_gone_is_missed_whatever_was_known_of_the_login(scene: Scene) -> None:
    await scene.enrol_app()
    await scene.require()
    assert not (await scene.caller()).must_enrol
    await scene.require(False)
    (own,) = (one for one in await scene.services.second_factors.own(scene.ann) if one.kind is FactorKind.TOTP)
    await scene.services.second_factors.remove(await scene.caller(), own.id, KNOWN, "::1")
    await scene.require()
    assert (await scene.caller()).must_enrol


async def test_tickets_of_one_account_do_not_fill_the_store(scene: Scene) -> None:
    await scene.enrol_app()
    for _ in range(20):
        await scene.ticket()
    with pytest.raises(TooMany):
        await scene.ticket()
    scene.world.clock.forward(minutes=5)
    assert await scene.ticket()


async def test_an_old_login_that_must_enrol_needs_the_password_once_more(scene: Scene) -> None:
    await scene.require()
    scene.world.clock.forward(seconds=JUST_LOGGED_IN.total_seconds())
    caller = await scene.caller()
    with pytest.raises(Denied):
        await scene.services.second_factors.enrol(caller, FactorKind.TOTP, "phone", FactorProof(), "::1")
    assert await scene.services.second_factors.enrol(caller, FactorKind.TOTP, "phone", KNOWN, "::1")


async def test_an_administrator_resets_what_somebody_lost(scene: Scene) -> None:
    await scene.enrol_app()
    factors = scene.services.second_factors
    for stranger in (scene.ann, await scene.world.add_user("bob", "auditor")):
        with pytest.raises(Denied):
            await factors.reset(stranger, "ann@example.com")
    with pytest.raises(NotFound):
        await factors.reset(scene.root, "nobody@example.com")
    await factors.reset(scene.root, "ann@example.com")
    with pytest.raises(Unauthenticated):
        await scene.caller()
    assert isinstance(await scene.password(), OpenedLogin)


async def test_people_of_an_identity_provider_and_programs_have_no_second_factors_here(scene: Scene) -> None:
    account = await scene.services.users.own(scene.ann)
    opened = await scene.services.logins.open(account, LoginMethod.OIDC, CLIENT)
    await scene.require()
    caller = await scene.caller(opened.token)
    assert not caller.must_enrol
    with pytest.raises(Denied):
        await scene.services.second_factors.enrol(caller, FactorKind.TOTP, "x", KNOWN, "::1")
    with pytest.raises(Unauthenticated):
        await scene.services.second_factors.enrol(Caller(scene.ann), FactorKind.TOTP, "x", KNOWN, "::1")
