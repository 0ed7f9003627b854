"""gRPC through a gateway: an unmodified client with TLS, and an unmodified server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any
from uuid import uuid4

import grpc
import pytest
from tests.support.gateway import Gateway
from tests.support.http_applications import GatewayHost

from postern.wiring import tls

SERVICE = "/test.Numbers/"


class _Numbers(grpc.GenericRpcHandler):
    """The service. Messages are bytes."""

    def __init__(self) -> None:
        self.seen: list[dict[str, str | bytes]] = []

    def service(self, details: Any) -> Any:
        self.seen.append(dict(details.invocation_metadata))
        if details.method == f"{SERVICE}Double":
            return grpc.unary_unary_rpc_method_handler(self._double)
        if details.method == f"{SERVICE}Sum":
            return grpc.stream_stream_rpc_method_handler(self._sum)
        return None

    def _double(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        if request == b"fail":
            context.abort_with_status(_Refused())
        context.set_trailing_metadata((("count", "1"), ("raw-bin", b"\0\xff")))
        return request * 2

    def _sum(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        total = 0
        for request in requests:
            total += int(request)
            yield str(total).encode()
        context.set_trailing_metadata((("total", str(total)),))


class _Refused(grpc.Status):
    code = grpc.StatusCode.FAILED_PRECONDITION
    details = "no: ä"
    trailing_metadata = (("why", "test"),)


@pytest.fixture(scope="module")
def numbers() -> _Numbers:
    return _Numbers()


@pytest.fixture(scope="module")
def address(numbers: _Numbers) -> Iterator[str]:
    server = grpc.server(futures.ThreadPoolExecutor(8), handlers=[numbers])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"http://127.0.0.1:{port}"
    server.stop(None).wait()


Connect = Callable[..., tuple[GatewayHost, Any]]  # and its channel


@pytest.fixture
def connect(gateway: Gateway, address: str) -> Iterator[Connect]:
    channels: list[grpc.Channel] = []

    def made(**fields: Any) -> tuple[GatewayHost, Any]:
        host = GatewayHost(gateway, f"grpc-{uuid4().hex[:6]}", address, secret={"HTTP_VERSION": "2"}, **fields)
        authority = tls.authority(gateway.settings)
        assert authority is not None
        credentials = grpc.composite_channel_credentials(
            grpc.ssl_channel_credentials(authority.read_bytes()),
            grpc.access_token_call_credentials(".".join(host.login)),
        )
        channels.append(grpc.secure_channel(f"localhost:{host.port}", credentials))
        return host, channels[-1]

    yield made
    for channel in channels:
        channel.close()


def test_unary_calls_with_trailers(connect: Connect, numbers: _Numbers) -> None:
    host, channel = connect()
    double = channel.unary_unary(f"{SERVICE}Double")
    for size in (0, 5, 100_000, 1_500_000):
        answer, call = double.with_call(b"x" * size, timeout=60, metadata=(("own", "1"),))
        assert answer == b"x" * 2 * size
        trailers = dict(call.trailing_metadata())
        assert (trailers["count"], trailers["raw-bin"]) == ("1", b"\0\xff")
    assert numbers.seen[-1]["own"] == "1"
    assert "authorization" not in numbers.seen[-1]
    assert len(host.sessions()) == 1
    assert host.login[1] not in host.recorded()


@pytest.mark.parametrize(
    ("method", "sent", "code", "details"),
    [
        ("Double", b"fail", grpc.StatusCode.FAILED_PRECONDITION, "no: ä"),
        ("Missing", b"", grpc.StatusCode.UNIMPLEMENTED, "Method not found!"),
    ],
)
def test_errors_of_the_server(connect: Connect, method: str, sent: bytes, code: grpc.StatusCode, details: str) -> None:
    _, channel = connect()
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(f"{SERVICE}{method}")(sent, timeout=60)
    assert (caught.value.code(), caught.value.details()) == (code, details)


def test_conversation_in_both_directions(connect: Connect) -> None:
    _, channel = connect()
    answers: list[bytes] = []

    def numbers() -> Iterator[bytes]:
        for number in range(1, 21):
            yield str(number).encode()
            while len(answers) < number:  # the next only after the answer
                time.sleep(0.001)

    call = channel.stream_stream(f"{SERVICE}Sum")(numbers(), timeout=60)
    for answer in call:
        answers.append(answer)
    assert [int(answer) for answer in answers] == [number * (number + 1) // 2 for number in range(1, 21)]
    assert dict(call.trailing_metadata())["total"] == "210"


def test_refused_call_is_a_status(gateway: Gateway, connect: Connect) -> None:
    host, channel = connect()
    gateway.guardrail(f"no-{host.name}", host.connection, deny="Numbers/Double")
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(f"{SERVICE}Double")(b"1", timeout=60)
    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert host.name in (caught.value.details() or "")


def test_killed_session_ends_a_conversation(connect: Connect) -> None:
    host, channel = connect()
    call: Any = None

    def numbers() -> Iterator[bytes]:
        yield b"1"
        while call is None or call.is_active():
            time.sleep(0.01)

    call = channel.stream_stream(f"{SERVICE}Sum")(numbers(), timeout=60)
    assert next(call) == b"1"
    assert host.kill_open_sessions()
    with pytest.raises(grpc.RpcError) as caught:
        next(call)
    assert caught.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.CANCELLED)
