"""The last log lines of all processes: written by the real handler, read back and followed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from postern import logs
from postern.domain.secret import Secret
from postern.domain.server_log import LogFilter
from postern.logs import rotation
from postern.store.journal import FileJournal

log = logging.getLogger("postern.relay.driver")


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    for handler in root.handlers:
        if handler not in handlers:
            handler.close()
    root.handlers = handlers
    root.setLevel(level)


def speak_as(process: str, folder: Path) -> None:
    logs.configure("debug", "text", process, folder=folder)


def messages(journal: FileJournal, wanted: LogFilter | None = None, limit: int = 100) -> list[str]:
    return [line.message for line in journal.last(wanted or LogFilter(), limit)]


def test_log_lines_of_all_processes_are_in_order_and_filtered(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path / "logs")
    assert messages(journal) == []
    for process in ("api", "w1", "api"):
        speak_as(process, tmp_path / "logs")
        log.info("from %s", process, extra={"port": 7432})
    log.warning("careful")
    log.debug("noise")
    assert messages(journal) == ["from api", "from w1", "from api", "careful", "noise"]
    assert messages(journal, limit=2) == ["careful", "noise"]
    assert messages(journal, LogFilter(process="w1")) == ["from w1"]
    assert messages(journal, LogFilter(level="warning")) == ["careful"]
    line = journal.last(LogFilter(process="w1"), 1)[0]
    assert (line.level, line.logger, line.more) == ("info", "relay.driver", {"port": 7432})
    assert messages(journal, LogFilter(since=line.at))[0] == "from w1"
    assert messages(journal, LogFilter(since=datetime(2999, 1, 1, tzinfo=UTC))) == []


def test_secrets_are_not_in_log_files(tmp_path: Path) -> None:
    speak_as("api", tmp_path)
    log.info("login with %s", Secret("hunter1"), extra={"password": "hunter2", "head": {"Authorization": "hunter3"}})
    kept = Secret("hunter" + "4")  # a traceback quotes the source
    try:
        raise ValueError(kept)
    except ValueError:
        log.exception("it failed")
    assert len(messages(FileJournal(tmp_path))) == 2
    assert b"hunter" not in (tmp_path / "api.jsonl").read_bytes()


def test_log_files_are_bounded_and_readable_by_their_owner_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotation, "SIZE", 2_000)
    folder = tmp_path / "home" / "logs"
    speak_as("api", folder)
    for number in range(100):
        log.info("line %d", number)
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert set(sizes) == {"api.jsonl", "api.1.jsonl"}
    assert max(sizes.values()) <= 2_000
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    said = messages(FileJournal(folder))
    assert said[-1] == "line 99"
    assert 10 < len(said) < 40


def test_overlong_log_line_is_replaced_by_a_note(tmp_path: Path) -> None:
    speak_as("api", tmp_path)
    log.info("x" * rotation.MAX_LINE)
    log.info("short")
    assert messages(FileJournal(tmp_path))[1:] == ["short"]
    assert "too long" in messages(FileJournal(tmp_path))[0]


def test_unwritable_log_folder_does_not_stop_the_process(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file is in the way")
    speak_as("api", tmp_path / "logs")
    log.info("goes on")
    assert messages(FileJournal(tmp_path / "none")) == []


def test_malformed_log_lines_are_skipped(tmp_path: Path) -> None:
    speak_as("api", tmp_path)
    log.info("good")
    with (tmp_path / "api.jsonl").open("ab") as stream:
        stream.write(b'{"timestamp": "x", "level": "info"}\n[]\nnot json\n\xff\n{"timestamp"')
    assert messages(FileJournal(tmp_path)) == ["good"]


def test_following_continues_across_rotations_and_new_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotation, "SIZE", 2_000)
    speak_as("api", tmp_path)
    log.info("before")
    follower = FileJournal(tmp_path).follow(None)
    assert follower.read() == []
    seen: list[str] = []
    for number in range(60):
        if number == 30:
            speak_as("w1", tmp_path)
        log.info("line %d", number)
        if number % 5 == 0:
            seen += [line.message for line in follower.read()]
    seen += [line.message for line in follower.read()]
    assert seen == [f"line {number}" for number in range(60)]
    assert follower.read() == []


def test_following_continues_at_its_position(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    speak_as("api", tmp_path)
    for number in range(5):
        log.info("line %d", number)
    third = journal.last(LogFilter(), 5)[2]
    follower = journal.follow(third.id)
    log.info("line 5")
    assert [line.message for line in follower.read()] == ["line 3", "line 4", "line 5"]
    assert follower.read() == []
    for made_up in ("", "x", "9999", "2026/api/²", "//" * 1000):
        journal.follow(made_up).read()
