"""Applications that others have written, used in Chromium through a gateway, each at a host of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect
from tests.support.gateway import Gateway
from tests.support.http_applications import (
    JUPYTER_TOKEN,
    GatewayHost,
    chromium,
    running_chat,
    running_django,
    running_jupyter,
    running_prometheus,
)
from tests.support.promises import wait_until
from tests.support.tcp_gateway import local_port

expect.set_options(timeout=60_000)  # a busy machine
MASKED: dict[str, Any] = {"redact_enabled": True, "redact_types": ("EMAIL_ADDRESS",)}
PASSWORD = "rootpass"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("jupyter")
    with running_jupyter(folder) as url:
        yield url


@pytest.fixture(scope="module")
def django(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_django(tmp_path_factory.mktemp("django")) as url:
        yield url


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_prometheus(tmp_path_factory.mktemp("prometheus")) as url:
        yield url


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_chat(tmp_path_factory.mktemp("chat")) as url:
        yield url


class Visits:
    """Contexts of the browser, which end with the test."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    def page(self, host: GatewayHost) -> Page:
        context = host.context(self._browser)
        self._contexts.append(context)
        return context.new_page()

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture
def visits(browser: Browser) -> Iterator[Visits]:
    made = Visits(browser)
    yield made
    made.close()


# Every application


@pytest.mark.slow
@pytest.mark.parametrize(
    ("application", "path"),
    [("jupyter", "/lab/x"), ("django", "/admin/auth/"), ("prometheus", "/classic/flags"), ("chat", "/x")],
)
def test_refused_path_is_a_page_that_people_understand(
    request: pytest.FixtureRequest, gateway: Gateway, visits: Visits, application: str, path: str
) -> None:
    host = GatewayHost(gateway, f"refused-{application}", request.getfixturevalue(application))
    gateway.guardrail(f"no-{application}", host.connection, deny=rf"GET {path}")
    page = visits.page(host)
    answer = page.goto(host.url + path)
    assert answer is not None
    assert answer.status == 403
    expect(page.get_by_role("heading", name="Blocked")).to_be_visible()
    expect(page.get_by_text(f"no-{application}").first).to_be_visible()


# Django's administration


def log_in(page: Page, url: str) -> None:
    page.goto(f"{url}/admin/auth/user/")
    expect(page).to_have_url(f"{url}/admin/login/?next=/admin/auth/user/")
    page.get_by_label("Username:").fill("root")
    page.get_by_label("Password:").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(f"{url}/admin/auth/user/")


@pytest.mark.slow
def test_django_admin_logs_in_and_changes_an_account(gateway: Gateway, django: str, visits: Visits) -> None:
    host = GatewayHost(gateway, "django-admin", django)
    page = visits.page(host)
    log_in(page, host.url)
    page.get_by_role("link", name="Add user").click()
    page.get_by_label("Username:").fill("ann")
    page.locator("#id_password1").fill("annpass-1")
    page.locator("#id_password2").fill("annpass-1")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was added successfully")).to_be_visible()
    page.get_by_label("Email address:").fill("ann@example.com")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("was changed successfully")).to_be_visible()
    expect(page.get_by_role("cell", name="ann@example.com")).to_be_visible()
    cookies = {cookie["name"]: cookie for cookie in page.context.cookies()}
    assert {"sessionid", "csrftoken", "postern"} <= set(cookies)
    assert cookies["sessionid"]["domain"] == f"{host.name}.localhost"

    recorded = host.recorded()
    assert "POST /admin/login/" in recorded
    assert "302" in recorded
    for secret in (cookies["sessionid"]["value"], cookies["csrftoken"]["value"], host.login[1], PASSWORD, "annpass-1"):
        assert secret not in recorded


@pytest.mark.slow
def test_django_admin_rejects_forged_requests(gateway: Gateway, django: str, visits: Visits) -> None:
    host = GatewayHost(gateway, "django-csrf", django)
    page = visits.page(host)
    log_in(page, host.url)
    token = page.locator("input[name=csrfmiddlewaretoken]").first.get_attribute("value")
    form = {"csrfmiddlewaretoken": token or "", "username": "mallory"}
    cookies = {cookie["name"]: cookie["value"] for cookie in page.context.cookies()}
    client = host.client(cookies=cookies)
    for headers, status in (
        ({"Origin": host.url, "Referer": f"{host.url}/admin/"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": host.url.replace(host.name, "other")}, 403),
    ):
        assert client.post("/admin/auth/user/add/", data=form, headers=headers).status_code == status, headers
    form["csrfmiddlewaretoken"] = "x" * 32
    assert client.post("/admin/auth/user/add/", data=form).status_code == 403


@pytest.mark.slow
def test_django_pages_and_json_are_masked(gateway: Gateway, django: str, visits: Visits) -> None:
    host = GatewayHost(gateway, "django-masked", django, **MASKED)
    page = visits.page(host)
    log_in(page, host.url)
    row = page.get_by_role("row").filter(has_text="root")
    expect(row).to_contain_text("*")
    assert "root@example.com" not in page.content()
    expect(page.locator("#header")).to_have_css("display", "flex")  # style sheets arrive
    accounts = host.client().get("/accounts.json").json()["accounts"]
    (root,) = [account for account in accounts if account["username"] == "root"]
    assert "@example.com" not in root["email"]
    assert "*" in root["email"]


# Jupyter


def notebook(*sources: str) -> bytes:
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None, "id": f"c{n}"}
        for n, source in enumerate(sources)
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}).encode()


def run_notebook(page: Page, host: GatewayHost, name: str, source: str) -> None:
    """Upload a notebook with Jupyter's API, open it in JupyterLab, and run its only cell."""
    authorization = {"Authorization": f"token {JUPYTER_TOKEN}"}
    body = {"type": "notebook", "format": "json", "content": json.loads(notebook(source))}
    made = host.client().put(f"/api/contents/{name}.ipynb", json=body, headers=authorization)
    assert made.status_code == 201, made.text
    page.goto(f"{host.url}/lab/workspaces/{name}/tree/{name}.ipynb?token={JUPYTER_TOKEN}")
    cell = page.locator(".jp-Notebook .jp-CodeCell").first
    expect(cell).to_be_visible()
    expect(page.get_by_role("button", name="Python 3 (ipykernel) | Idle")).to_be_visible()
    page.get_by_role("button", name="Run this cell and advance").click()


OUTPUT = ".jp-OutputArea-output"


@pytest.mark.slow
def test_jupyter_runs_a_cell_until_the_session_is_killed(gateway: Gateway, jupyter: str, visits: Visits) -> None:
    host = GatewayHost(gateway, "jupyter", jupyter)
    page = visits.page(host)
    refused = page.goto(f"{host.url}/lab")
    assert refused is not None
    expect(page).to_have_url(f"{host.url}/login?next=%2Flab")  # Jupyter's own login
    closed: list[str] = []
    page.on("websocket", lambda socket: socket.on("close", lambda _: closed.append(socket.url)))
    run_notebook(page, host, "answer", "print(6 * 7, 'is the answer')")
    expect(page.locator(OUTPUT).first).to_have_text("42 is the answer")
    assert len(host.sessions()) == 1
    assert not [url for url in closed if "/channels" in url]

    host.kill_open_sessions()

    def has_closed() -> bool:
        page.wait_for_timeout(100)  # in which events of the page are handled
        return any("/channels" in url for url in closed)

    wait_until(lambda: has_closed() or None)
    cookies = page.context.cookies()
    page.close()  # it would open sessions again and again
    recorded = host.recorded()
    requests = "\n".join([text for session in host.sessions() for text in gateway.operations(session.id)])
    assert "/api/kernels/" in requests
    assert JUPYTER_TOKEN not in requests  # pages of Jupyter have it, and pages are recorded
    for cookie in cookies:  # Jupyter's forms have `_xsrf` too
        assert cookie["value"] not in (requests if cookie["name"] == "_xsrf" else recorded), cookie["name"]


@pytest.mark.slow
def test_jupyter_outputs_are_masked(gateway: Gateway, jupyter: str, visits: Visits) -> None:
    host = GatewayHost(gateway, "jupyter-masked", jupyter, **MASKED)
    page = visits.page(host)
    run_notebook(page, host, "people", "print('mail to', 'ann' + '@' + 'example.com')")
    output = page.locator(OUTPUT).first
    expect(output).to_contain_text("mail to")
    expect(output).to_contain_text("*")
    expect(output).not_to_contain_text("ann@example.com")


# Prometheus


@pytest.mark.slow
def test_prometheus_runs_a_query(gateway: Gateway, prometheus: str, visits: Visits) -> None:
    host = GatewayHost(gateway, "prometheus", prometheus)
    page = visits.page(host)
    page.goto(host.url)
    expect(page).to_have_url(f"{host.url}/classic/graph")
    page.locator("textarea[name=expr]").fill("up")
    page.get_by_role("button", name="Execute").click()
    expect(page.get_by_role("cell").filter(has_text='job="itself"')).to_be_visible()
    page.goto(f"{host.url}/classic/targets")
    expect(page.get_by_text("itself").first).to_be_visible()
    page.goto(f"{host.url}/classic/graph?g0.expr=up&g0.tab=0&g0.range_input=5m")
    expect(page.locator(".rickshaw_graph svg path").first).to_be_attached()
    recorded = host.recorded()
    assert "query" in recorded
    assert host.login[1] not in recorded


@pytest.mark.slow
def test_prometheus_answers_are_masked(gateway: Gateway, prometheus: str) -> None:
    host = GatewayHost(gateway, "prometheus-masked", prometheus, **MASKED)
    query = 'label_replace(up, "owner", "ann@example.com", "", "")'
    answer = host.client().get("/api/v1/query", params={"query": query}).json()
    owner = answer["data"]["result"][0]["metric"]["owner"]
    assert "*" in owner
    assert "example.com" not in owner or "ann@" not in owner


# Chat


def say(page: Page, text: str) -> None:
    page.get_by_label("Message").fill(text)
    page.get_by_role("button", name="Send").click()


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["websocket", "polling"])
def test_chat_of_two(gateway: Gateway, chat: str, visits: Visits, transport: str) -> None:
    host = GatewayHost(gateway, f"chat-{transport}", chat)
    ann, bob = visits.page(host), visits.page(host)
    for page in (ann, bob):
        page.goto(f"{host.url}/?transport={transport}")
        expect(page.locator("#state")).to_have_text(f"connected by {transport}")
    say(ann, "hello")
    say(bob, "hello yourself")
    for page in (ann, bob):
        expect(page.locator("#said li")).to_have_text(["hello", "hello yourself"])
    recorded = host.recorded()  # which kills the session
    assert host.login[1] not in recorded
    if transport == "websocket":
        assert "/socket.io/" in recorded
        for page in (ann, bob):
            expect(page.locator("#state")).to_have_text("disconnected")


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["websocket", "polling"])
def test_chat_is_masked(gateway: Gateway, chat: str, visits: Visits, transport: str) -> None:
    host = GatewayHost(gateway, f"chat-masked-{transport}", chat, **MASKED)
    page = visits.page(host)
    page.goto(f"{host.url}/?transport={transport}")
    expect(page.locator("#state")).to_have_text(f"connected by {transport}")
    say(page, "write to ann@example.com today")
    expect(page.locator("#said li")).to_have_count(1)
    expect(page.locator("#said li")).to_contain_text("*")
    expect(page.locator("#said li")).not_to_contain_text("ann@example.com")


# A local port


@pytest.mark.slow
def test_applications_at_a_local_port(gateway: Gateway, django: str, chat: str, browser: Browser) -> None:
    """Nobody logs in there: the command line has done that."""
    context = browser.new_context()
    page = context.new_page()
    host = GatewayHost(gateway, "django-local", django)
    with local_port(gateway, host.name, protocol="httpproxy") as local:
        url = f"http://127.0.0.1:{local.port}"
        log_in(page, url)
        page.get_by_role("link", name="Add user").click()
        expect(page).to_have_url(f"{url}/admin/auth/user/add/")
    host = GatewayHost(gateway, "chat-local", chat)
    with local_port(gateway, host.name, protocol="httpproxy") as local:
        page.goto(f"http://localhost:{local.port}/?transport=websocket")
        expect(page.locator("#state")).to_have_text("connected by websocket")
        say(page, "hello")
        expect(page.locator("#said li")).to_have_text(["hello"])
        assert host.kill_open_sessions()
        expect(page.locator("#state")).to_have_text("disconnected")
        assert local.failures == []
    context.close()


# Two applications


@pytest.mark.slow
def test_pages_of_one_application_cannot_read_another(
    gateway: Gateway, chat: str, prometheus: str, visits: Visits
) -> None:
    """The browser has a cookie of both, but sends none to another site."""
    one, other = GatewayHost(gateway, "one", chat), GatewayHost(gateway, "other", prometheus)
    page = visits.page(one)
    page.context.add_cookies([{"name": "postern", "value": ".".join(other.login), "url": other.url}])
    page.goto(one.url + "/?transport=polling")
    read = "(url) => fetch(url, OPTIONS).then((answer) => answer.text()).catch((error) => `${error}`)"
    for options in ("{}", "{credentials: 'include'}", "{method: 'PUT', credentials: 'include'}"):
        found = page.evaluate(read.replace("OPTIONS", options), f"{other.url}/api/v1/query?query=up")
        assert "Failed to fetch" in found, options
    assert not other.sessions()
    allowed = page.evaluate(read.replace("OPTIONS", "{mode: 'cors'}"), f"{one.url}/socket.io.js")
    assert "Socket.IO" in allowed
