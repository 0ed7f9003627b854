"""Check that this machine's clock agrees with the gateway's, by the `Date` of an answer (RFC 9110 section 6.6.1)."""

from __future__ import annotations

from email.utils import parsedate_to_datetime

from postern.cli.doctor.finding import DoctorFinding, ok, warning, wrong

SKEW = 30.0  # seconds


def compare_clocks(date: str | None, before: float, after: float) -> list[DoctorFinding]:
    """Return the finding. `before` and `after` are this machine's times around the answer. `date` has whole seconds."""
    try:
        remote_time = parsedate_to_datetime(date or "").timestamp()
    except ValueError:
        return warning(
            "clock", "the gateway's answer has no date", "so clocks cannot be compared", "date -u, on both machines"
        )
    late, early = before - remote_time - 1, remote_time - after
    skew = max(late, early, 0.0)
    if skew <= SKEW:
        return ok("clock", "it agrees with the gateway's")
    what = f"this machine's clock is {skew:.0f} s {'ahead of' if late > 0 else 'behind'} the gateway's"
    why = "tokens, codes and certificates are valid for a limited time, and recorded times would be wrong"
    return wrong("clock", what, why, "timedatectl set-ntp true, on the machine whose clock is wrong")
