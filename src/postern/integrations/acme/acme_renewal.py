"""When a certificate of an ACME server is renewed, and when a failed attempt is repeated."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

RENEW_AT = 2 / 3  # of the lifetime
JITTER = 1 / 20  # of the lifetime, so that gateways of one hour do not renew in the same hour
FIRST_DELAY, LONGEST_DELAY = timedelta(minutes=5), timedelta(hours=12)
AFTER_SUCCESS = timedelta(hours=1)  # so that a certificate that cannot be used is not ordered again and again
_MAX_PROBLEM = 2_000  # characters
_AT_ONCE = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class AcmeState:
    """What became of the last attempts. `problem` is empty if the last one succeeded."""

    failures: int = 0
    problem: str = ""
    next_at: datetime = _AT_ONCE

    def after_failure(self, problem: str, now: datetime) -> AcmeState:
        """Return the state after one more failure: the delay doubles, with jitter."""
        longest = min(LONGEST_DELAY, FIRST_DELAY * 2 ** min(self.failures, 20))
        delay = longest * random.uniform(0.75, 1.0)  # noqa: S311 - spreads renewals; no secret
        return AcmeState(self.failures + 1, problem[:_MAX_PROBLEM], now + delay)


def state_after_success(now: datetime) -> AcmeState:
    return AcmeState(next_at=now + AFTER_SUCCESS)


def renewal_time(start: datetime, end: datetime, der: bytes) -> datetime:
    """Return when a certificate is renewed: at two thirds of its lifetime, and a little later for some."""
    fraction = int.from_bytes(hashlib.sha256(der).digest()[:4]) / 2**32
    return start + (end - start) * (RENEW_AT + JITTER * fraction)


def read_state(file: Path) -> AcmeState:
    """Return the stored state; a new one if there is none, or if it cannot be read."""
    try:
        values = json.loads(file.read_text())
        next_at = datetime.fromisoformat(values["next_at"])
        state = AcmeState(int(values["failures"]), str(values["problem"]), next_at)
    except (OSError, ValueError, KeyError, TypeError):
        return AcmeState()
    return state if next_at.tzinfo is not None else AcmeState()


def write_state(file: Path, state: AcmeState) -> None:
    values = {"failures": state.failures, "problem": state.problem, "next_at": state.next_at.isoformat()}
    draft = file.with_name(f".{file.name}")
    draft.write_text(json.dumps(values) + "\n")
    draft.replace(file)
