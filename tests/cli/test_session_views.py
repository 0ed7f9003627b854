"""A session at a terminal as it is watched, played again and exported: a whole gateway, a real shell."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.promises import wait_until, within
from tests.support.running import Gateway, started
from tests.support.sitting import Sitting

pytestmark = pytest.mark.ci

ATTACK = r"printf '\033]52;c;eA==\007\033[6n\033[31mre''d\033[0m\n'"


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with started("--no-demo", "--gateway-commands") as made:
        assert made.run("connections", "create", "shell", "--command", "bash --norc").returncode == 0
        yield made


def newest(gateway: Gateway) -> dict[str, str]:
    found: dict[str, str] = json.loads(gateway.run("sessions", "list", "--limit", "1", "--json").stdout)["data"][0]
    return found


def test_watched_replayed_and_exported(sit: Callable[..., Sitting], gateway: Gateway, tmp_path: Path) -> None:
    sitting = sit("connect", "shell")
    sitting.shows("bash-")
    session = newest(gateway)["id"]
    watching = sit("sessions", "watch", session)
    watching.shows("bash-")
    sitting.type(f"{ATTACK}; exit\r")
    watching.shows("\x1b[31mred\x1b[0m")
    watching.shows("the session has ended: client_closed")
    assert watching.process.wait(60) == 0
    wait_until(lambda: newest(gateway)["status"] == "done")

    replayed = sit("sessions", "replay", session, "--max-pause", "0.05s")
    replayed.shows("\x1b[31mred\x1b[0m")
    assert replayed.process.wait(60) == 0
    for shown in (watching.shown, replayed.shown):
        assert b"\x1b]52" not in shown
        assert b"\x1b[6n" not in shown
    raw = gateway.run("sessions", "replay", session, "--raw", "--speed", "1000")
    assert "\x1b]52;c;eA==\x07\x1b[6n" in raw.stdout

    file = tmp_path / "session.cast"
    assert gateway.run("sessions", "export", session, "--format", "asciicast", "-o", str(file)).returncode == 0
    header, *events = [json.loads(line) for line in file.read_text().splitlines()]
    assert (header["version"], header["width"], header["height"]) == (2, 95, 25)
    printed = "".join(text for _, code, text in events if code == "o")
    assert "\x1b]52;c;eA==\x07\x1b[6n\x1b[31mred\x1b[0m" in printed
    assert [text for _, code, text in events if code == "m"] == [f"{ATTACK}; exit"]
    assert gateway.run("sessions", "export", session, "-o", str(file)).returncode == 2  # it is there already


def test_keys_of_a_replay(sit: Callable[..., Sitting], gateway: Gateway) -> None:
    sitting = sit("connect", "shell")
    sitting.shows("bash-")
    sitting.type("sleep 3; echo la''ter; exit\r")
    sitting.shows("later")
    session = newest(gateway)["id"]
    wait_until(lambda: newest(gateway)["status"] == "done")
    replayed = sit("sessions", "replay", session, "--speed", "0.01")  # what took seconds takes minutes
    while replayed.process.poll() is None:
        replayed.type(".")
        replayed.reads(0.2)
    replayed.shows("later", 0)
    assert replayed.process.returncode == 0


def test_a_kill_is_seen_by_who_watches_within_two_seconds(sit: Callable[..., Sitting], gateway: Gateway) -> None:
    """By the API's process, which is not the one that has the session."""
    sitting = sit("connect", "shell")
    sitting.shows("bash-")
    session = newest(gateway)["id"]
    watching = sit("sessions", "watch", session)
    watching.shows("bash-")
    assert gateway.run("sessions", "kill", session).returncode == 0
    sitting.shows("this session was killed", within(2))
    watching.shows("the session has ended: ", within(2))
    assert watching.process.wait(60) == 0
