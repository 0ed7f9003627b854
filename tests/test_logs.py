from __future__ import annotations

import fcntl
import io
import json
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern import logs
from postern.domain.secret import Secret
from postern.errors import Misconfigured
from postern.logs.log_file import LogFile, LogFileHandler


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    yield
    root.handlers = handlers
    root.setLevel(level)


def lines(form: str, message: str, *arguments: object, level: str = "info", **extra: object) -> list[str]:
    stream = io.StringIO()
    logs.configure(level, form, "w1", stream)
    logging.getLogger("postern.relay.driver").info(message, *arguments, extra=extra)
    return stream.getvalue().split("\n")


def test_text_is_one_readable_line() -> None:
    [line, rest] = lines("text", "accepted %s", "a client", port=7432, why="no reason")
    assert rest == ""
    assert line.split(" ", 1)[1] == "info     w1 relay.driver: accepted a client  port=7432 why='no reason'"


def test_json_is_one_object() -> None:
    line = json.loads(lines("json", "accepted", port=7432)[0])
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "accepted",
        "level": "info",
        "logger": "relay.driver",
        "process": "w1",
        "port": 7432,
    }


@pytest.mark.parametrize("form", logs.FORMATS)
def test_secrets_are_hidden_by_type_and_by_name(form: str) -> None:
    written = "\n".join(
        lines(
            form,
            "login with %s",
            Secret("hunter1"),
            password="hunter2",
            other=Secret("hunter3"),
            headers={"Authorization": "Bearer hunter4", "plain": ["kept", Secret("hunter5")]},
            API_KEY="hunter6",
        )
    )
    assert "hunter" not in written
    assert "kept" in written


@given(message=st.text(), value=st.text(), form=st.sampled_from(logs.FORMATS))
def test_nothing_a_peer_sends_breaks_out_of_its_line(message: str, value: str, form: str) -> None:
    written = lines(
        form, "%s", message.encode(errors="replace").decode(), value=value.encode(errors="replace").decode()
    )
    assert len(written) == 2
    assert written[1] == ""
    assert "\r" not in written[0]
    assert "\x1b" not in written[0]
    assert len(written[0].splitlines()) == 1


@pytest.mark.parametrize("form", logs.FORMATS)
def test_a_traceback_stays_on_its_line(form: str) -> None:
    stream = io.StringIO()
    logs.configure("info", form, "api", stream)
    try:
        raise ValueError("first\nsecond")
    except ValueError:
        logging.getLogger("postern").exception("it failed")
    [line, rest] = stream.getvalue().split("\n")
    assert rest == ""
    assert "Traceback" in line
    assert "ValueError: first" in line


def test_level_and_noise() -> None:
    assert lines("text", "quiet", level="warning") == [""]
    assert logging.getLogger("httpx").level == logging.WARNING


@pytest.mark.parametrize(("level", "form", "named"), [("loud", "text", "LOG_LEVEL"), ("info", "xml", "LOG_FORMAT")])
def test_unknown_settings_are_named(level: str, form: str, named: str) -> None:
    with pytest.raises(Misconfigured, match=f"POSTERN_{named}.*use one of"):
        logs.configure(level, form, "api")


@pytest.mark.parametrize(
    "name", ["botocore.parsers", "urllib3.connectionpool", "azure.core.pipeline", "google.auth", "apprise"]
)
def test_attack_libraries_do_not_write_secrets_down_at_the_level_debug(name: str) -> None:
    """They log what they sent and what was answered."""
    stream = io.StringIO()
    logs.configure("debug", "text", "w1", stream)
    logging.getLogger(name).debug("Response body: the secret")
    logging.getLogger("postern.agent").debug("ours")
    assert "secret" not in stream.getvalue()
    assert "ours" in stream.getvalue()


WRITE = """
import logging, sys
from pathlib import Path
from postern import logs
from postern.logs.log_file import LogFile, LogFileHandler
logs.configure("info", "text", sys.argv[2], file=LogFile(Path(sys.argv[1]), size=20_000, count=50))
for number in range(1_000):
    logging.getLogger("postern.test").info("line %d %s", number, "x" * (number % 90))
"""


def test_processes_share_a_rotated_file_and_no_line_is_lost_or_torn(tmp_path: Path) -> None:
    file = tmp_path / "postern.log"
    names = ["w1", "w2", "api"]
    running = [subprocess.Popen([sys.executable, "-c", WRITE, str(file), name]) for name in names]
    assert [process.wait(120) for process in running] == [0, 0, 0]
    files = [file, *tmp_path.glob("postern.log.*")]
    found: dict[str, set[int]] = {name: set() for name in names}
    for each in files:
        assert each.stat().st_size <= 20_000 + len(names) * 200  # lines that others wrote meanwhile
        assert each.stat().st_mode & 0o007 == 0
        for line in each.read_text().splitlines():
            match = re.fullmatch(r"\S+Z info     (\w+) test: line (\d+) x*", line)
            assert match, line
            found[match[1]].add(int(match[2]))
    assert len(files) > 3
    assert found == {name: set(range(1_000)) for name in names}


def file_logger(file: Path, *, count: int = 2, form: str = "text") -> logging.Logger:
    logs.configure("info", form, "w1", file=LogFile(file, size=300, count=count))
    return logging.getLogger("postern.test")


def test_only_as_many_files_are_kept_as_were_asked_for(tmp_path: Path) -> None:
    log = file_logger(tmp_path / "log")
    for number in range(30):
        log.info("line %02d", number)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "log.1", "log.2"]
    newest = [(tmp_path / name).read_text().splitlines()[-1][-2:] for name in ("log", "log.1", "log.2")]
    assert newest == sorted(newest, reverse=True)
    assert newest[0] == "29"


def test_file_that_another_program_moves_or_removes_is_opened_again(tmp_path: Path) -> None:
    file = tmp_path / "log"
    log = file_logger(file, form="json")
    moves: tuple[Callable[[], object], ...] = (lambda: file.rename(tmp_path / "moved"), file.unlink)
    for number, move in enumerate(moves):
        log.info("before")
        move()
        log.info("after %d", number)
        assert json.loads(file.read_text())["event"] == f"after {number}"
    assert "before" in (tmp_path / "moved").read_text()


def test_rotation_that_was_not_needed_any_more_leaves_no_lock(tmp_path: Path) -> None:
    """Another program has truncated the file meanwhile."""
    log = file_logger(tmp_path / "log")
    log.info("line")
    [handler] = logging.getLogger().handlers
    assert isinstance(handler, LogFileHandler)
    handler._rotate(1)
    with (tmp_path / "log").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert not (tmp_path / "log.1").exists()


def test_line_longer_than_a_file_is_written_as_a_whole(tmp_path: Path) -> None:
    log = file_logger(tmp_path / "log")
    for _ in range(2):
        log.info("x" * 1_000)
    assert len((tmp_path / "log").read_text().splitlines()) == 1
    assert (tmp_path / "log.1").exists()


def test_line_that_cannot_be_written_goes_to_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    log = file_logger(folder / "log")
    log.info("first")
    shutil.rmtree(folder)
    log.info("the folder is gone")
    assert "the folder is gone" in capsys.readouterr().err


def test_device_as_the_log_file_is_not_rotated() -> None:
    log = file_logger(Path("/dev/null"))
    for _ in range(10):
        log.info("x" * 100)
    assert not Path("/dev/null.1").exists()


def test_file_that_cannot_be_opened_and_a_format_that_is_not_for_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match=r"POSTERN_LOG_FILE: .*written: No such file.*folder must exist"):
        file_logger(tmp_path / "nowhere" / "log")
    with pytest.raises(Misconfigured, match="journald is for standard error"):
        file_logger(tmp_path / "log", form="journald")


def test_journald_gets_priorities_and_no_time() -> None:
    stream = io.StringIO()
    logs.configure("debug", "journald", "w1", stream)
    log = logging.getLogger("postern.relay")
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL):
        log.log(level, "message\n<0>forged", extra={"port": 1})
    lines = stream.getvalue().splitlines()
    assert [line[:3] for line in lines] == ["<7>", "<6>", "<4>", "<3>", "<2>"]
    assert all(re.fullmatch(r"<\d>w1 relay: message\S+forged  port=1", line) for line in lines)


@pytest.mark.parametrize("reads", [True, False])
def test_journal_that_reads_standard_error_is_noticed(
    reads: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "stderr").open("w") as stream:
        status = os.fstat(stream.fileno())
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino + (not reads)}")
        logs.configure("info", "auto", "w1")
        logging.getLogger("postern.test").info("message")
        stream.flush()
        written = (tmp_path / "stderr").read_text()
        assert written.startswith("<6>w1 test: message") == reads
        logs.configure("info", "text", "w1")  # was chosen
        logging.getLogger("postern.test").info("chosen")
        stream.flush()
        assert re.search(r"^\S+Z info     w1 test: chosen$", (tmp_path / "stderr").read_text(), re.MULTILINE)
