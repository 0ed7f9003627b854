"""The archiver in a whole gateway, with recordings in S3 as moto plays it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer
from tests.support.aws import BUCKET, ObjectStorage, object_storage
from tests.support.processes import words
from tests.support.promises import wait_until
from tests.support.running import Gateway

pytestmark = pytest.mark.ci


@pytest.fixture(scope="module")
def storage() -> Iterator[ObjectStorage]:
    with object_storage() as running:
        yield running


@pytest.fixture(scope="module")
def running(storage: ObjectStorage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    made = Gateway(tmp_path_factory.mktemp("g"))
    made.environment |= storage.environment
    made.environment["POSTERN_RECORDINGS_URL"] = f"s3://{BUCKET}/kept?endpoint={storage.endpoint}"
    try:
        made.start()
        yield made
    finally:
        made.remove()


def sealed(gateway: Gateway) -> list[Path]:
    return list((gateway.home / "sealed").glob("*/*/*.rec.zst"))


def run_script(gateway: Gateway, text: str) -> str:
    """Its session, once its recording is stored."""
    done = gateway.run("exec", "shop-demo", "--json", "-i", f"select '{text}'")
    assert done.returncode == 0, done.stderr
    assert text in done.stdout
    return str(newest(gateway)["id"])


def newest(gateway: Gateway) -> dict[str, object]:
    found: dict[str, object] = json.loads(gateway.run("sessions", "--json").stdout)["data"][0]
    return found


def archiver_of(gateway: Gateway) -> int:
    """Its process id; 0 when there is none."""
    assert gateway.process is not None
    pid = gateway.process.pid
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if "archiver" in words(int(child)):
            return int(child)
    return 0


def test_recordings_go_to_the_blob_store_and_are_shown_from_there(running: Gateway, storage: ObjectStorage) -> None:
    session = run_script(running, "what was asked")
    wait_until(lambda: any(session in key for key in storage.keys()) and not sealed(running))  # noqa: SIM118
    assert not (running.home / "recordings").exists()
    shown = running.run("sessions", "show", session)
    assert shown.returncode == 0
    assert "what was asked" in shown.stdout


def test_a_killed_archiver_is_started_again(running: Gateway, storage: ObjectStorage) -> None:
    before = archiver_of(running)
    assert before
    os.kill(before, signal.SIGKILL)
    session = run_script(running, "while it was away")
    wait_until(lambda: any(session in key for key in storage.keys()), timeout=60)  # noqa: SIM118
    after = archiver_of(running)
    assert after not in (0, before)
    assert "archiver was ended by signal SIGKILL; restarting it" in running.log


def test_a_blob_store_that_is_down_hinders_nobody_and_loses_nothing(running: Gateway, storage: ObjectStorage) -> None:
    host, port = storage.server.get_host_and_port()
    storage.server.stop()
    try:
        sessions = [run_script(running, f"meanwhile {number}") for number in range(3)]
        wait_until(lambda: "recordings cannot be stored; they stay on this machine's disk" in running.log)
        wait_until(lambda: len(sealed(running)) == 3)
        assert "meanwhile 0" in running.run("sessions", "show", sessions[0]).stdout, "it is still here"
        checked = json.loads(running.run("doctor", "--gateway", "--json").stdout)
        (found,) = [one for one in checked if one["check"] == "blob store"]
        assert found["state"] == "wrong"
    finally:
        again = ThreadedMotoServer(ip_address=host, port=port, verbose=False)
        again.start()
    try:
        wait_until(lambda: not sealed(running), timeout=60)
        wait_until(lambda: "recordings can be stored again" in running.log)
        assert running.log.count("recordings cannot be stored") == 1
        assert "meanwhile 2" in running.run("sessions", "show", sessions[2]).stdout
    finally:
        again.stop()
