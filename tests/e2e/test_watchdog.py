"""A worker that hangs is replaced, in a whole gateway of real processes."""

from __future__ import annotations

import os
import shlex
import signal

import psycopg
import pytest
from tests.support.promises import PATIENT, wait_until
from tests.support.running import started

pytestmark = pytest.mark.slow


def test_stopped_worker_is_replaced_and_new_clients_are_served() -> None:
    with started(WATCHDOG_TIMEOUT="5") as gateway:
        url = shlex.split(gateway.told["psql"])[1]
        [hung] = gateway.processes("worker")
        with psycopg.connect(url) as before:
            assert before.execute("select 1").fetchone() == (1,)
            os.kill(hung, signal.SIGSTOP)
            wait_until(lambda: "w1 has restarted" in gateway.log, PATIENT)
            assert f"w1 (pid {hung}) hangs: its event loop has sent no heartbeat for 5 s" in gateway.log
            assert gateway.processes("worker") != [hung]
            with pytest.raises(psycopg.OperationalError):
                before.execute("select 2")
        with psycopg.connect(url) as after:
            assert after.execute("select 3").fetchone() == (3,)
        sessions = {session["metadata"].get("end_reason") for session in gateway.sessions()}
        assert "gateway_crashed" in sessions
