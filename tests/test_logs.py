from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern import logs
from postern.domain.secret import Secret
from postern.errors import Misconfigured


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
