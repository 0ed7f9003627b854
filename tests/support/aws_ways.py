"""Ways to DynamoDB and CloudWatch by boto3, for the table of features.

Nothing in a request of theirs makes a text, as `select 'a' || 'b'` does. So a text that is to be shown is stored
beforehand, by a client that goes around the gateway.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from moto.server import ThreadedMotoServer
from tests.support import aws_program
from tests.support.cloudwatch_gateway import cloudwatch_connection
from tests.support.dynamodb_gateway import direct_client, dynamodb_connection
from tests.support.dynamodb_local import dynamodb_local, running_dynamodb_local
from tests.support.features import Client, HttpProgram, Way
from tests.support.gateway import Gateway

from postern.domain.identity.credential import Issued
from postern.domain.targets.connection import Connection
from postern.wiring import tls

MADE, SHOWN = "made", "shown"
SLOW = "slow"  # requests with this word in them are never answered


@contextmanager
def stalling(target: str) -> Iterator[str]:
    """The address of a server in front of a target. It passes requests on, but for those that are never answered."""
    ended = threading.Event()
    place = urlsplit(target)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if f'"{SLOW}"'.encode() in body:
                ended.wait()
                self.close_connection = True
                return
            connection = HTTPConnection(place.hostname or "", place.port, timeout=60)
            connection.request("POST", self.path, body, dict(self.headers.items()))
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("content-length", "connection", "transfer-encoding", "date", "server"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None: ...

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: object) -> None:
            """Say nothing: sessions that are killed are part of the tests."""

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        ended.set()
        server.shutdown()


@contextmanager
def moto() -> Iterator[str]:
    """The address of moto, with nothing in it: all of its servers in one process share what they store."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        url = f"http://{host}:{port}"
        httpx.post(f"{url}/moto-api/reset").raise_for_status()
        yield url
    finally:
        server.stop()


@contextmanager
def aws_targets() -> Iterator[Mapping[str, str]]:
    """Addresses by subtype: moto, and DynamoDB Local where it is installed."""
    with moto() as cloudwatch, stalling(cloudwatch) as slow_cloudwatch:
        if dynamodb_local() is None:
            yield {"dynamodb": slow_cloudwatch, "cloudwatch": slow_cloudwatch}
            return
        with running_dynamodb_local() as dynamodb, stalling(dynamodb) as slow_dynamodb:
            yield {"dynamodb": slow_dynamodb, "cloudwatch": slow_cloudwatch}


class AwsWay(Way):
    """`subtype` is the connection's, `service` the name that boto3 has for it."""

    row = "DynamoDB, CloudWatch"
    refusal = "ERROR AccessDeniedException "
    is_silent = True
    begins_anew = True
    idle = "too late"
    ended = ("killed",)
    unavailable = "ERROR ServiceUnavailable "
    subtype = ""
    service = ""

    def __init__(self, gateway: Gateway, target: str) -> None:
        self._gateway = gateway
        self._target = target
        self._direct = direct_client(target, self.service)

    def start(self, issued: Issued, *statements: str, ports: Mapping[str, int] | None = None) -> Client:
        port = ports[self.subtype] if ports else getattr(self._gateway.settings, f"{self.subtype}_port")
        password, authority = issued.password.reveal(), str(tls.authority(self._gateway.settings))
        program = [sys.executable, str(Path(aws_program.__file__)), self.service, f"https://localhost:{port}"]
        command = [*program, issued.credential.username, password, authority]
        client = HttpProgram(self._gateway, issued.connection.name, command)
        client.says(*statements)
        return client


class Dynamodb(AwsWay):
    subtype = "dynamodb"
    service = "dynamodb"

    def __init__(self, gateway: Gateway, target: str) -> None:
        super().__init__(gateway, target)
        for table in (MADE, SHOWN):
            self._direct.create_table(
                TableName=table,
                AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
                KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
                BillingMode="PAY_PER_REQUEST",
            )

    def connection(self, name: str, **more: Any) -> Connection:
        return dynamodb_connection(self._gateway, name, self._target, **more)

    def shows(self, text: str) -> str:
        key = {"id": {"S": _name_of(text)}}
        self._direct.put_item(TableName=SHOWN, Item={**key, "text": {"S": text}})
        return _line("GetItem", TableName=SHOWN, Key=key)

    def makes(self, name: str) -> str:
        return _line("PutItem", TableName=MADE, Item={"id": {"S": name}})

    def is_made(self, name: str) -> bool:
        return "Item" in self._direct.get_item(TableName=MADE, Key={"id": {"S": name}})

    def sleeps(self) -> str:
        return _line("GetItem", TableName=SLOW, Key={"id": {"S": "1"}})


class Cloudwatch(AwsWay):
    subtype = "cloudwatch"
    service = "logs"

    def __init__(self, gateway: Gateway, target: str) -> None:
        super().__init__(gateway, target)
        self._direct.create_log_group(logGroupName=SHOWN)
        self._shown: set[str] = set()

    def connection(self, name: str, **more: Any) -> Connection:
        return cloudwatch_connection(self._gateway, name, self._target, **more)

    def shows(self, text: str) -> str:
        stream = {"logGroupName": SHOWN, "logStreamName": _name_of(text)}
        if text not in self._shown:
            self._shown.add(text)
            self._direct.create_log_stream(**stream)
            event = {"timestamp": int(time.time() * 1000), "message": text}
            self._direct.put_log_events(**stream, logEvents=[event])
        return _line("GetLogEvents", **stream)

    def makes(self, name: str) -> str:
        return _line("CreateLogGroup", logGroupName=name)

    def is_made(self, name: str) -> bool:
        found = self._direct.describe_log_groups(logGroupNamePrefix=name)["logGroups"]
        return name in [group["logGroupName"] for group in found]

    def clear(self, mark: str) -> None:
        for group in self._direct.describe_log_groups()["logGroups"]:
            if mark in group["logGroupName"]:
                with suppress(self._direct.exceptions.ResourceNotFoundException):
                    self._direct.delete_log_group(logGroupName=group["logGroupName"])

    def sleeps(self) -> str:
        return _line("GetLogEvents", logGroupName=SLOW, logStreamName=SLOW)


def _line(operation: str, **parameters: Any) -> str:
    """A request as the client takes it, and as the gateway records it."""
    return f"{operation} {json.dumps(parameters, ensure_ascii=False)}"


def _name_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
