"""`postern health`, as health checks run it. A gateway that is ready: tests/deploy/test_gateway_service.py."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.support.postgres import free_port

from postern.cli.main import cli


class Answering(BaseHTTPRequestHandler):
    status, body = 200, ""

    def do_GET(self) -> None:
        found = self.path == "/api/readyz"
        self.send_response(self.status if found else 404)
        self.end_headers()
        self.wfile.write(self.body.encode() if found else b"{}")

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def health(home: Path, port: int | None, *arguments: str) -> Result:
    if port is not None:
        (home / "run").mkdir()
        (home / "run" / "api-url").write_text(f"http://gateway.example.com:{port}")
    return CliRunner().invoke(cli, ["health", *arguments], env={"POSTERN_HOME": str(home), "POSTERN_HOST": "127.0.0.1"})


def answer(monkeypatch: pytest.MonkeyPatch, status: int, body: str) -> None:
    monkeypatch.setattr(Answering, "status", status)
    monkeypatch.setattr(Answering, "body", body)


def test_ready_gateway_is_healthy(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, 200, json.dumps({"readiness": "OK"}))
    result = health(tmp_path, port, "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"ready": True})


def test_what_is_missing_is_named(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, 503, json.dumps({"message": "no relay worker is alive"}))
    result = health(tmp_path, port)
    assert result.exit_code == 6
    assert "the gateway is not ready: no relay worker is alive" in result.stderr


@pytest.mark.parametrize("body", ["<!doctype html>", "", "[]", "{}", '"OK"', "{"])
def test_attack_page_of_another_program_is_not_healthy(
    body: str, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, 200, body)
    result = health(tmp_path, port)
    assert result.exit_code == 6
    assert f"what answers at 127.0.0.1:{port} is not a gateway" in result.stderr


def test_stopped_gateway_is_not_healthy(tmp_path: Path) -> None:
    nowhere = free_port()
    result = health(tmp_path, nowhere)
    assert result.exit_code == 6
    assert f"nothing answers at 127.0.0.1:{nowhere}" in result.stderr


def test_folder_without_a_gateway_is_named(tmp_path: Path) -> None:
    result = health(tmp_path, None)
    assert result.exit_code == 6
    assert f"{tmp_path} is not the data folder of a gateway that was started" in result.stderr
