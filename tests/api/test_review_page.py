"""The page where a review is decided in a browser, without scripts."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import httpx
import pytest
from tests.api.conftest import PASSWORD, Api, message
from tests.support.reviews import asked
from tests.support.world import API_URL

from postern.domain.features import Feature
from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import ApprovalRequirement, Review, ReviewKind
from postern.domain.reviews.review_status import ReviewStatus

OWN = {"Origin": "null", "Sec-Fetch-Site": "same-origin"}  # what browsers send for a form of a page without referrer
HOSTILE = '"><script>alert(1)</script><form action="https://evil.example">\u202e'


async def browser(api: Api, name: str) -> httpx.AsyncClient:
    headers = {"Origin": API_URL, "Sec-Fetch-Site": "same-origin"}
    transport = httpx.ASGITransport(api.app, client=("192.0.2.7", 1))
    page = httpx.AsyncClient(transport=transport, base_url="http://localhost/api", headers=headers)
    body = {"email": f"{name}@example.com", "password": PASSWORD}
    assert (await page.post("/localauth/login?session=cookie", json=body)).status_code == 200
    page.headers = httpx.Headers()
    return page


async def waiting(api: Api, owner: str = "ann", **fields: Any) -> Review:
    await api.services.features.put(api.users["admin"], Feature.REVIEWS, enabled=True)
    group = sorted(api.users["bob"].groups)
    assert group
    given: dict[str, Any] = {"kind": ReviewKind.ONETIME, "demands": (ApprovalRequirement("", (group[0],)),)}
    now = api.world.clock()
    return await asked(api.world, api.users[owner], created_at=now, **{**given, **fields})


def csrf(html: str) -> str:
    found = re.search('name="csrf_token" value="([^"]*)"', html)
    assert found is not None, html
    return found[1]


class Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


async def answer(page: httpx.AsyncClient, review: Review, what: str, **changes: str) -> httpx.Response:
    shown = await page.get(f"/reviews/page/{review.id}")
    form = {"csrf_token": csrf(shown.text), "answer": what, "reason": "looks right"} | changes
    return await page.post(f"/reviews/page/{review.id}", data=form, headers=OWN)


async def state(api: Api, review: Review) -> Review:
    found = await api.world.stores.reviews.get(review.id)
    assert found is not None
    return found


@pytest.fixture
async def crowd(api: Api) -> Principal:
    """bob, who reviews."""
    users = api.services.users
    await users.update(api.users["admin"], "bob@example.com", {"groups": ("judges",)})
    account = await users.get(api.users["admin"], "bob@example.com")
    api.users["bob"] = account.principal
    return account.principal


async def test_who_reviews_sees_what_is_asked_and_approves(api: Api, crowd: Principal) -> None:
    review = await waiting(api, reason="the month's end")
    page = await browser(api, "bob")
    shown = await page.get(f"/reviews/page/{review.id}")
    assert shown.status_code == 200
    assert shown.headers["content-type"].startswith("text/html")
    policy = shown.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "form-action 'self'" in policy
    for text in ("ann@example.com", "the month&#39;s end", "select 1", "192.0.2.1", "logged in as bob@example.com"):
        assert text in shown.text
    done = await answer(page, review, "approve", reason="looks\r\nright")  # as a browser sends what was typed
    assert done.status_code == 200
    assert "APPROVED by bob@example.com" in done.text
    found = await state(api, review)
    assert (found.status, found.voices[0].comment) == (ReviewStatus.APPROVED, "looks right")


async def test_attack_arguments_of_a_script_are_not_hidden(api: Api, crowd: Principal) -> None:
    """A harmless script, and what it does in its arguments."""
    review = await waiting(api, input="argument 1: '--wipe'\nvariable TARGET")
    shown = await (await browser(api, "bob")).get(f"/reviews/page/{review.id}")
    assert "<pre>argument 1: &#39;--wipe&#39;\nvariable TARGET\n\nselect 1" in shown.text


async def test_a_rejection_says_why(api: Api, crowd: Principal) -> None:
    review = await waiting(api)
    page = await browser(api, "bob")
    silent = await answer(page, review, "reject", reason=" ")
    assert silent.status_code == 422
    assert "give a reason" in silent.text
    assert (await state(api, review)).status is ReviewStatus.PENDING
    assert (await answer(page, review, "reject")).status_code == 200
    assert (await state(api, review)).status is ReviewStatus.REJECTED
    late = await page.get(f"/reviews/page/{review.id}")
    assert "<form" not in late.text


async def test_nothing_that_people_wrote_is_markup(api: Api, crowd: Principal) -> None:
    review = await waiting(api, reason=HOSTILE, kind=ReviewKind.STATEMENT, input=f"select 1 {HOSTILE}")
    page = await browser(api, "bob")
    shown = await page.get(f"/reviews/page/{review.id}")
    tags = Tags(shown.text)
    assert [attributes["action"] for tag, attributes in tags.found if tag == "form"] == [
        f"/api/reviews/page/{review.id}"
    ]
    assert not [tag for tag, _ in tags.found if tag in {"script", "img", "iframe", "style", "link", "a"}]
    assert "\u202e" not in shown.text
    assert "\\u202e" in shown.text


async def test_a_form_of_another_site_or_login_decides_nothing(api: Api, crowd: Principal) -> None:
    review = await waiting(api)  # of ann's, who may withdraw it here
    page = await browser(api, "bob")
    token = csrf((await page.get(f"/reviews/page/{review.id}")).text)
    other = csrf((await (await browser(api, "ann")).get(f"/reviews/page/{review.id}")).text)
    url, form = f"/reviews/page/{review.id}", {"csrf_token": token, "answer": "approve"}
    for given, headers in (
        (form, {}),
        (form, {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}),
        (form, {"Origin": "null", "Sec-Fetch-Site": "cross-site"}),
        ({**form, "csrf_token": other}, OWN),
        ({**form, "csrf_token": ""}, OWN),
        ({"answer": "approve"}, OWN),
    ):
        message(await page.post(url, data=given, headers=headers), 403)
    for body in (b"\xff", b"csrf_token=" + b"x" * 20_000):
        message(await page.post(url, content=body, headers=OWN), 400)
    message(await page.post(url, data={**form, "answer": "take it"}, headers=OWN), 400)
    message(await api.as_bob.post(url, data=form, headers=OWN), 401)  # a token is no browser
    assert (await state(api, review)).voices == ()


async def test_nobody_decides_what_is_not_theirs(api: Api, crowd: Principal) -> None:
    own = await waiting(api, owner="bob")
    bob, ann = await browser(api, "bob"), await browser(api, "ann")
    refused = await answer(bob, own, "approve")
    assert refused.status_code == 403
    assert "you cannot approve your own request" in refused.text
    assert (await ann.get(f"/reviews/page/{own.id}")).status_code == 404
    assert (await ann.get("/reviews/page/made-up")).status_code == 404
    forced = await waiting(api)
    assert (await answer(bob, forced, "force")).status_code == 403
    assert (await state(api, forced)).voices == ()


async def test_counted_rows_are_for_who_reviews_alone(api: Api, crowd: Principal) -> None:
    review = await waiting(api, kind=ReviewKind.STATEMENT, input="update t set x = 1")
    assert await api.world.stores.reviews.store_estimate(review.id, {"rows": 4711, "said": ["t: 4711 rows"]})
    bob, ann = await browser(api, "bob"), await browser(api, "ann")
    assert "4711" in (await bob.get(f"/reviews/page/{review.id}")).text
    asker = (await ann.get(f"/reviews/page/{review.id}")).text
    assert "4711" not in asker
    assert "update t set x = 1" in asker


async def test_who_is_not_logged_in_is_led_to_login(api: Api, crowd: Principal) -> None:
    review = await waiting(api)
    shown = await api.nobody.get(f"/reviews/page/{review.id}")
    assert shown.status_code == 303
    assert shown.headers["location"].startswith(f"{API_URL}/api/web/login?back=%2Fapi%2Freviews%2Fpage%2F")
    assert shown.text == ""
    message(await api.nobody.post(f"/reviews/page/{review.id}", data={"answer": "approve"}, headers=OWN), 401)


async def test_a_decision_by_the_page_is_audited(api: Api, crowd: Principal) -> None:
    review = await waiting(api)
    await answer(await browser(api, "bob"), review, "approve")
    logged = (await api.as_admin.get("/audit/logs")).json()["data"]
    entry = next(one for one in logged if one["http_path"] == f"/api/reviews/page/{review.id}")
    assert (entry["actor_email"], entry["outcome"], entry["resource"]) == ("bob@example.com", "success", str(review.id))
