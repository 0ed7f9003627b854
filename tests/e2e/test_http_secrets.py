"""Secrets of requests and responses × places where a session is shown, for HTTP and DynamoDB. Each place shows a text
that is no secret, so none of them is empty."""

from __future__ import annotations

import base64
import json
import tarfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
import zstandard
from tests.support.aws_ways import moto
from tests.support.dynamodb_gateway import TARGET_KEYS, direct_client, dynamodb_connection, gateway_client
from tests.support.gateway import Gateway
from tests.support.http_details import ExactApp, ExactRequest, exact_app
from tests.support.http_gateway import http_connection, login_of
from tests.support.promises import wait_until
from tests.support.whole_site import WholeGateway, whole_gateway

from postern.domain.identity.credential import Issued
from postern.domain.sessions.session import Session

pytestmark = pytest.mark.slow

PLAIN = "notasecret"


def secret(name: str) -> str:
    """A value that is found wherever it is shown, also by its words."""
    return f"{''.join(sign for sign in name if sign.isalpha())}s3cret"


HTTP_SECRETS = (
    *("Authorization of the application", "Cookie", "X-Auth-Token", "Private-Token", "access_token in a query"),
    *("api_key in a query", "token in a Referer", "Set-Cookie", "X-Subject-Token", "code in a Location"),
    *("access_token in a fragment", "password in JSON", "password in a form", "header that the agent adds"),
    *("password, by Basic", "password, by Bearer", "password, in the own header", "password, in the own cookie"),
)


def answer(request: ExactRequest) -> None:
    """Answer with a secret in every place where responses have them."""
    for _ in request.body():
        pass
    headers = (
        ("Set-Cookie", f"sid={secret('Set-Cookie')}; Path=/"),
        ("X-Subject-Token", secret("X-Subject-Token")),
        ("Location", f"/cb?code={secret('code in a Location')}#access_token={secret('access_token in a fragment')}"),
        ("Content-Type", "text/plain"),
    )
    request.plain(PLAIN.encode(), 302, *headers)


def send_http(gateway: Gateway, issued: Issued) -> dict[str, str]:
    """Send requests with all secrets. Return what each is."""
    user, password = login_of(issued)
    token = f"{user}.{password}"
    basic = base64.b64encode(f"{user}:{password}".encode()).decode()
    own = {"Postern-Authorization": f"Bearer {token}"}
    sent = {
        "Cookie": f"sid={secret('Cookie')}",
        "X-Auth-Token": secret("X-Auth-Token"),
        "Private-Token": secret("Private-Token"),
        "Referer": f"http://a/?token={secret('token in a Referer')}",
    }
    query = f"a={PLAIN}&access_token={secret('access_token in a query')}&api_key={secret('api_key in a query')}"
    with httpx.Client(base_url=f"http://127.0.0.1:{gateway.settings.httpproxy_port}", timeout=60) as client:
        authorization = {"Authorization": f"Bearer {secret('Authorization of the application')}"}
        for headers in (
            {**own, **authorization},
            {"Authorization": f"Basic {basic}"},
            {"Authorization": own.popitem()[1]},
        ):
            assert client.get(f"/a?{query}", headers={**sent, **headers}).status_code == 302
        client.cookies.clear()
        assert client.get(f"/a?{query}", headers={"Cookie": f"postern={token}"}).status_code == 302
        for body in (
            {"json": {"password": secret("password in JSON"), "a": PLAIN}},
            {"data": {"password": secret("password in a form"), "a": PLAIN}},
        ):
            assert client.post("/a", auth=(user, password), **body).status_code == 302  # type: ignore[arg-type]
    found = {name: secret(name) for name in HTTP_SECRETS}
    return found | {
        "password, by Basic": basic,
        "password, by Bearer": password,
        "password, in the own header": token,
        "password, in the own cookie": password,
    }


AWS_SECRETS = ("secret key and session token", "signature", "signature's algorithm", "secret key of the target")


def send_aws(gateway: Gateway, issued: Issued) -> dict[str, str]:
    signatures: list[str] = []
    client = gateway_client(gateway, issued)
    client.meta.events.register(
        "before-send.dynamodb", lambda request, **_: signatures.append(request.headers["Authorization"].decode())
    )
    client.get_item(TableName=PLAIN, Key={"id": {"S": PLAIN}})
    (signature,) = signatures
    return {
        "secret key and session token": issued.password.reveal(),
        "signature": signature.rpartition("Signature=")[2],
        "signature's algorithm": "AWS4-HMAC-SHA256",
        "secret key of the target": TARGET_KEYS["AWS_SECRET_ACCESS_KEY"],
    }


class Shown:
    """A session with secrets, and everything that is shown of it."""

    def __init__(self, whole: WholeGateway, name: str, send: Callable[[Gateway, Issued], dict[str, str]]) -> None:
        self.gateway, self.api = whole.gateway, whole.client
        self.secrets = send(self.gateway, self.gateway.credential(name))
        (session,) = self.gateway.sessions(connection=name)
        self.path = f"/sessions/{session.id}"
        self.texts = {"live": self._live()}
        self.api.post(f"{self.path}/kill").raise_for_status()
        self.session: Session = self.gateway.finished(session.id)
        self.texts |= {name: show(self) for name, show in PLACES.items()}
        self.texts["logs"] = f"{PLAIN} {self.gateway.worker.log()} {whole.api.log()}"
        wait_until(lambda: self.hits(PLAIN) or None)

    def _live(self) -> str:
        shown = b""
        with self.api.stream("GET", f"{self.path}/stream") as stream:
            for line in stream.iter_lines():
                if line.startswith("data: ") and "payload" in line:
                    shown += base64.b64decode(json.loads(line[6:])["payload"])
                    if shown.count(PLAIN.encode()) >= 2:
                        break
        return shown.decode()

    def read(self, path: str = "", **parameters: str) -> str:
        return self.api.get(self.path + path, params=parameters).raise_for_status().text

    def hits(self, word: str) -> list[Any]:
        found = self.api.get("/sessions", params={"search": f'"{word}"', "connection": self.session.connection})
        return list(found.raise_for_status().json()["data"])


def _exported(shown: Shown) -> str:
    gateway = shown.gateway

    async def read() -> bytes:
        pieces = await gateway.services.exports.begin(gateway.admin, None, None)
        return b"".join([piece async for piece in pieces])

    path = gateway.home / "export.tar"

    def export() -> bytes | None:
        path.write_bytes(gateway.call(read()))
        with tarfile.open(path) as tar:
            names = [name for name in tar.getnames() if str(shown.session.id) in name]
            contents = [tar.extractfile(name).read() for name in names]  # type: ignore[union-attr]
            others = [tar.extractfile(name).read() for name in tar.getnames() if name not in names]  # type: ignore[union-attr]
        return b"".join([*map(_plain, contents), *map(_plain, others)]) if names else None

    return wait_until(export).decode("latin-1")


def _plain(data: bytes) -> bytes:
    is_compressed = data.startswith(b"\x28\xb5\x2f\xfd")
    return zstandard.ZstdDecompressor().decompressobj().decompress(data) if is_compressed else data


def _events(shown: Shown) -> str:
    events = json.loads(shown.read(expand="event_stream"))["event_stream"]
    return b"".join([base64.b64decode(data) for _, _, data in events]).decode()


PLACES: dict[str, Callable[[Shown], str]] = {
    "records": lambda shown: b"".join(
        [repr(event).encode() for event in shown.gateway.records(shown.session.id)]
    ).decode(),
    "text": lambda shown: shown.gateway.text(shown.session.id),
    "statements": lambda shown: "\n".join(shown.gateway.operations(shown.session.id)),
    "replay": _events,
    "file": lambda shown: shown.read(extension="txt"),
    "timeline": lambda shown: shown.read("/timeline"),
    "session": lambda shown: f"{PLAIN} {shown.read()} {shown.session!r}",
    "export": _exported,
}


@pytest.fixture(scope="module")
def shown() -> Iterator[dict[str, Shown]]:
    with ExitStack() as stack:
        app: ExactApp = stack.enter_context(exact_app())
        app.answers["/a"] = answer
        whole = stack.enter_context(whole_gateway())
        added = {"HEADER_X_ADDED": secret("header that the agent adds")}
        http_connection(whole.gateway, "web", app.url, secret=added)
        endpoint = stack.enter_context(moto())
        direct_client(endpoint).create_table(
            TableName=PLAIN,
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )
        direct_client(endpoint).put_item(TableName=PLAIN, Item={"id": {"S": PLAIN}})
        dynamodb_connection(whole.gateway, "items", endpoint)
        web, items = Shown(whole, "web", send_http), Shown(whole, "items", send_aws)
        web.texts["archive"] = web.read("/export", format="har")
        yield {"web": web, "items": items}


ALL_PLACES = ("live", "logs", *PLACES)


@pytest.mark.parametrize("place", [*ALL_PLACES, "archive", "search"])
@pytest.mark.parametrize("name", HTTP_SECRETS)
def test_secret_of_http_is_not_shown(shown: dict[str, Shown], name: str, place: str) -> None:
    _check(shown["web"], name, place)


@pytest.mark.parametrize("place", [*ALL_PLACES, "search"])
@pytest.mark.parametrize("name", AWS_SECRETS)
def test_secret_of_aws_is_not_shown(shown: dict[str, Shown], name: str, place: str) -> None:
    _check(shown["items"], name, place)


def _check(shown: Shown, name: str, place: str) -> None:
    value = shown.secrets[name]
    if place == "search":
        assert shown.hits(value) == []
    else:
        assert PLAIN in shown.texts[place]
        assert value not in shown.texts[place]
