"""The limit of open files, of a gateway's machine and of an agent's."""

from __future__ import annotations

import resource

from postern.cli.doctor.finding import RESTART, DoctorFinding, ok, warning

FEW = 4096
MANY = 0.6  # of the limit: above, there is little left until clients are rejected
WHY = "each session needs about three; a process near its limit rejects new clients"
DO = (
    "raise the hard limit: LimitNOFILE=1048576 in the systemd unit, --ulimit nofile=1048576 for a container; it holds "
    f"from the next start on, and {RESTART}"
)


def check_hard_limit(when: str) -> list[DoctorFinding]:
    """Of whoever asks: what is started from the same place inherits it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < FEW:
        return warning("open files", f"the hard limit is {hard} where {when} from here", WHY, DO)
    return ok("open files", "not limited" if hard == resource.RLIM_INFINITY else f"the hard limit is {hard}")
