"""The limit of open files, for a gateway's machine and an agent's."""

from __future__ import annotations

import resource

from postern.cli.doctor.finding import RESTART, DoctorFinding, ok, warning

FEW = 4096
MANY = 0.6  # fraction of the limit from which clients will soon be rejected
WHY = "each session needs about three files; a process near its limit rejects new clients"
DO = (
    "raise the hard limit: LimitNOFILE=1048576 in the systemd unit, --ulimit nofile=1048576 for a "
    f"container; it applies from the next start, and {RESTART}"
)


def check_hard_limit(when: str) -> list[DoctorFinding]:
    """Check the limit of this process: a program that is started from the same place inherits it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < FEW:
        return warning("open files", f"the hard limit is {hard} if {when} from here", WHY, DO)
    return ok("open files", "not limited" if hard == resource.RLIM_INFINITY else f"the hard limit is {hard}")
