"""The result of a check, and how checks are run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass
from enum import StrEnum

from postern.errors import PosternError

DEADLINE = 20.0  # seconds for all checks together
PATIENCE = 5.0  # seconds for one socket
# Advice that would interrupt sessions says so. tests/cli/test_doctor.py checks this for every text of these modules.
RESTART = "a restart ends running sessions, so choose a quiet time"


class FindingState(StrEnum):
    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """`what` was found; unless it is OK, `why` it matters and what to type or `do`."""

    check: str
    state: FindingState
    what: str
    why: str = ""
    do: str = ""


Check = Callable[[], list[DoctorFinding]]


def ok(check: str, what: str) -> list[DoctorFinding]:
    return [DoctorFinding(check, FindingState.OK, what)]


def warning(check: str, what: str, why: str, do: str) -> list[DoctorFinding]:
    return [DoctorFinding(check, FindingState.WARNING, what, why, do)]


def wrong(check: str, what: str, why: str, do: str) -> list[DoctorFinding]:
    return [DoctorFinding(check, FindingState.WRONG, what, why, do)]


def run(checks: Mapping[str, Check], *, deadline: float = DEADLINE) -> list[DoctorFinding]:
    """Run all checks concurrently; return their findings in the order of the checks. A check that fails or is late is a
    finding, too."""
    end = time.monotonic() + deadline
    pool = ThreadPoolExecutor(max(1, len(checks)), thread_name_prefix="check")
    futures = {name: pool.submit(check) for name, check in checks.items()}
    findings: list[DoctorFinding] = []
    for name, answer in futures.items():
        try:
            findings += answer.result(max(0.0, end - time.monotonic()))
        except Late:
            findings += wrong(name, f"no answer within {deadline:g} s", "clients wait as long", "try again")
        except PosternError as error:
            findings += wrong(
                name, error.message, "the checks that depend on it could not run", "fix it, then run: postern doctor"
            )
        except Exception as error:
            findings += wrong(
                name, f"{type(error).__name__}: {error}", "it could not be checked", "postern doctor --json"
            )
    pool.shutdown(wait=False, cancel_futures=True)
    return findings
