"""Calls to trackers: addresses that are never called, and answers that are late, wrong or hostile."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import replace
from ipaddress import ip_network
from typing import Any

import pytest
from tests.support.certificates import issue
from tests.support.receivers import LOOPBACK
from tests.support.trackers.jira import SOFTWARE, TASK, TOKEN, USER, JiraServer
from tests.support.trackers.serving import Fault, serving
from tests.support.trackers.settings import jira_settings, new_issue

from postern.domain.issues.issue import TrackerKind, TrackerSettings, Uncertain
from postern.domain.secret import Secret
from postern.errors import Denied, Invalid, PosternError, Unavailable
from postern.integrations.trackers import tracker_calls
from postern.integrations.trackers.trackers import AnyTracker, tracker_of

NEW = new_issue(SOFTWARE, TASK)


@pytest.fixture
async def site() -> AsyncIterator[JiraServer]:
    async with serving(JiraServer()) as server:
        yield server


@pytest.fixture
async def tracker(site: JiraServer) -> AsyncIterator[AnyTracker]:
    made = tracker_of(jira_settings(site), LOOPBACK, deadline=1.0)
    yield made
    await made.close()


def settings(url: str, **changes: Any) -> TrackerSettings:
    given: dict[str, Any] = {"user": USER, "token": Secret(TOKEN)}
    return TrackerSettings(TrackerKind.JIRA_CLOUD, url, **{**given, **changes})


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "::1", "10.1.2.3", "169.254.169.254", "::ffff:169.254.169.254", "100.100.100.200", "0.0.0.0"],
)
async def test_private_tracker_address_is_never_called(address: str) -> None:
    async def resolved(_host: str, _port: int) -> list[str]:
        return ["93.184.216.34", address]

    tracker = tracker_of(settings("https://jira.example.com"), resolver=resolved)
    with pytest.raises(Unavailable, match=r"not public.*POSTERN_TRACKER_NETWORKS") as caught:
        await tracker.create(NEW)
    assert not isinstance(caught.value, Uncertain)
    await tracker.close()


async def test_cloud_metadata_address_is_never_called_even_in_an_allowed_network() -> None:
    async def resolved(_host: str, _port: int) -> list[str]:
        return ["169.254.169.254"]

    tracker = tracker_of(settings("https://jira.example.com"), (ip_network("0.0.0.0/0"),), resolver=resolved)
    with pytest.raises(Unavailable, match="not public"):
        await tracker.check()
    await tracker.close()


async def test_call_uses_the_checked_address(site: JiraServer) -> None:
    """A name that has another address the second time has no effect."""
    asked = []

    async def resolved(host: str, _port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    tracker = tracker_of(jira_settings(site), LOOPBACK, resolver=resolved)
    assert "Robot" in await tracker.check()
    assert asked == ["localhost"]
    await tracker.close()


@pytest.mark.parametrize(
    "url",
    [
        "http://jira.example.com",
        "ftp://jira.example.com",
        "file:///etc/passwd",
        "https://ann:pw@jira.example.com",
        "https://jira.example.com/?x=1",
        "https://jira.example.com/#x",
        "https://jira.example.com/a b",
        "https://jira.example.com/\r\nX-Evil: 1",
        "https://jira.example.com:99999",
        "https://[::1",
        "https://",
        "",
    ],
)
def test_invalid_tracker_address_is_rejected(url: str) -> None:
    for kind in TrackerKind:
        with pytest.raises(Invalid) as caught:
            tracker_of(replace(settings(url), kind=kind))
        assert caught.value.field == "url"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"token": Secret("")}, "token"),
        ({"token": Secret("a b")}, "token"),
        ({"token": Secret("a\r\nX-Evil: 1")}, "token"),
        ({"user": ""}, "user"),
        ({"user": "ann:x"}, "user"),
        ({"user": "ann\n"}, "user"),
        ({"authority": "no pem"}, "authority"),
    ],
)
def test_invalid_tracker_credentials_are_rejected(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        tracker_of(settings("https://jira.example.com", **changes))
    assert caught.value.field == field


async def test_untrusted_tracker_certificate_is_rejected(site: JiraServer) -> None:
    for authority in ("", issue("localhost").authority):
        tracker = tracker_of(jira_settings(site, authority=authority), LOOPBACK)
        with pytest.raises(Unavailable, match=r"cannot be reached.*certificate verify failed"):
            await tracker.check()
        await tracker.close()
    assert not site.calls


async def test_unreachable_tracker_is_unavailable_and_not_uncertain() -> None:
    async with serving(JiraServer()) as gone:
        tracker = tracker_of(jira_settings(gone), LOOPBACK)
    with pytest.raises(Unavailable, match="localhost cannot be reached") as caught:
        await tracker.create(NEW)
    assert not isinstance(caught.value, Uncertain)
    await tracker.close()


async def test_tracker_name_without_an_address_is_unavailable() -> None:
    async def nowhere(_host: str, _port: int) -> list[str]:
        raise OSError("no such name")

    async def none(_host: str, _port: int) -> list[str]:
        return []

    for resolver, said in ((nowhere, "cannot be resolved"), (none, "has no address")):
        tracker = tracker_of(settings("https://jira.example.com"), resolver=resolver)
        with pytest.raises(Unavailable, match=said):
            await tracker.check()
        await tracker.close()


@pytest.mark.ci
async def test_call_to_a_hanging_tracker_times_out(site: JiraServer, tracker: AnyTracker) -> None:
    site.faults.append(Fault("POST .*/issue", hangs=True))
    with pytest.raises(Uncertain, match=r"did not answer in 1 seconds|connection .* broke: ReadTimeout"):
        await tracker.create(NEW)
    site.faults.append(Fault("GET", hangs=True))
    with pytest.raises(Unavailable):
        await tracker.check()
    assert "Robot" in await tracker.check()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirect_of_a_tracker_is_not_followed(site: JiraServer, tracker: AnyTracker, status: int) -> None:
    async with serving(JiraServer()) as other:
        site.faults.append(Fault("myself", status=status, headers={"Location": f"{other.url}/rest/api/3/myself"}))
        with pytest.raises(PosternError, match="redirects are not followed"):
            await tracker.check()
        assert not other.calls


async def test_oversized_tracker_answer_is_unavailable(site: JiraServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker_calls, "LIMIT", 10_000)
    tracker = tracker_of(jira_settings(site), LOOPBACK)
    site.faults.append(Fault("myself", raw=b"HTTP/1.1 200 X\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 20_000))
    with pytest.raises(Unavailable, match="larger than 10000 bytes"):
        await tracker.check()
    await tracker.close()


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "broke: RemoteProtocolError"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "broke: RemoteProtocolError"),
        (b"HTTP/1.1 200 X\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", "compressed its answer"),
        (b"HTTP/1.1 200 X\r\nContent-Length: 900\r\n\r\n{", "broke: "),
    ],
)
async def test_malformed_tracker_answer_is_unavailable_or_uncertain(
    site: JiraServer, tracker: AnyTracker, raw: bytes, said: str
) -> None:
    site.faults.append(Fault("myself", raw=raw))
    with pytest.raises(Unavailable, match=said):
        await tracker.check()
    site.faults.append(Fault("POST .*/issue", raw=raw))
    with pytest.raises(Uncertain, match=said):
        await tracker.create(NEW)


async def test_tracker_answer_of_unexpected_shape_raises_only_documented_errors(
    site: JiraServer, tracker: AnyTracker
) -> None:
    """Such as the page of a proxy, or JSON of another service."""
    deep = b"[" * 100_000
    whole = b"HTTP/1.1 200 X\r\nContent-Length: %d\r\n\r\n" % len(deep)
    for fault in (
        Fault("", status=200, content=None),
        Fault("", status=200, content=["x"]),
        Fault("", status=200, content={"fields": [], "issues": {}, "values": "x", "displayName": 7}),
        Fault("", status=418, content={"errorMessages": {"a": 1}, "errors": ["x"], "message": 3}),
        Fault("", raw=whole + deep),
    ):
        for one in (tracker.check(), tracker.create(NEW), tracker.find(NEW)):
            site.faults[:] = [fault] * 4
            (outcome,) = await asyncio.gather(one, return_exceptions=True)
            assert isinstance(outcome, PosternError | str | None), outcome
            assert str(outcome).isprintable()


async def test_error_text_of_a_tracker_is_one_printable_line_without_the_token(
    site: JiraServer, tracker: AnyTracker
) -> None:
    words = f"\x1b[2Jyour token {TOKEN}\r\nis\u202e wrong " + "x" * 10_000
    site.faults.append(Fault("myself", status=400, content={"errorMessages": [words], "errors": {"a": "b"}}))
    with pytest.raises(Invalid) as caught:
        await tracker.check()
    said = caught.value.message
    assert said.startswith("localhost answered 400: [2Jyour token *** is wrong xxx")
    assert said.isprintable()
    assert len(said) < 1_100


@pytest.mark.parametrize(
    ("given", "pause"),
    [
        ("30", 30),
        ("99999999999", tracker_calls.MAX_PAUSE),
        ("-1", None),
        ("soon", None),
        ("", None),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 1),
        ("Fri, 01 Jan 2100 00:00:00 GMT", tracker_calls.MAX_PAUSE),
    ],
)
def test_retry_after_header_is_read_up_to_a_maximum(given: str, pause: int | None) -> None:
    assert tracker_calls.pause_of(tracker_calls.TrackerResponse(429, {"Retry-After": given}, None)) == pause


async def test_rate_limited_tracker_is_unavailable_with_the_retry_time(site: JiraServer, tracker: AnyTracker) -> None:
    site.faults.append(Fault("myself", status=429, headers={"Retry-After": "12"}))
    with pytest.raises(Unavailable, match="answered 429") as caught:
        await tracker.check()
    assert caught.value.retry_after == 12


async def test_conflicting_transition_is_unavailable_and_can_be_retried(site: JiraServer, tracker: AnyTracker) -> None:
    """https://developer.atlassian.com/cloud/jira/platform/rest/v3/api-group-issues/: 409 of a transition."""
    made = await tracker.create(NEW)
    site.faults.append(Fault("POST .*/transitions", status=409, content={"errorMessages": ["in progress"]}))
    with pytest.raises(Unavailable, match="409: in progress"):
        await tracker.transition(made, "done")
    assert await tracker.transition(made, "done")


async def test_forbidden_call_is_denied_with_the_trackers_reason(site: JiraServer, tracker: AnyTracker) -> None:
    site.faults.append(Fault("POST", status=403, content={"errorMessages": ["You do not have permission to create"]}))
    with pytest.raises(Denied, match="403: You do not have permission to create"):
        await tracker.create(NEW)


async def test_tracker_token_is_not_in_the_repr_of_its_settings(site: JiraServer, tracker: AnyTracker) -> None:
    assert TOKEN not in repr(jira_settings(site))
    assert TOKEN not in repr(vars(tracker._calls))


async def test_attack_credentials_echoed_in_a_tracker_error_are_masked(site: JiraServer, tracker: AnyTracker) -> None:
    """Debugging proxies echo requests, and the user who opens a session can read the error."""
    pair = b64encode(f"{USER}:{TOKEN}".encode()).decode()
    site.faults.append(Fault("myself", status=400, content={"message": f"bad: Authorization: Basic {pair}, {TOKEN}"}))
    with pytest.raises(Invalid) as caught:
        await tracker.check()
    assert caught.value.message == "localhost answered 400: bad: Authorization: ***, ***"


async def test_attack_credentials_echoed_in_a_successful_answer_are_masked(
    site: JiraServer, tracker: AnyTracker
) -> None:
    """Answers become addresses, names of assets and audit entries."""
    pair = b64encode(f"{USER}:{TOKEN}".encode()).decode()
    site.faults.append(Fault("myself", status=200, content={"displayName": f"{TOKEN}, Basic {pair}, {pair}"}))
    assert await tracker.check() == "Jira accepts the credentials of ***, ***, ***"
