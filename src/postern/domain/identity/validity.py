"""Certificates that are refused for their dates: as often by a wrong clock as for being old."""

from __future__ import annotations

from datetime import datetime

SET_CLOCK = "timedatectl set-ntp true"


def refused_for_its_dates(said: str, now: datetime) -> str:
    """What a certificate was refused for, in words that name this machine's clock; empty when it was something else.

    `said` is the TLS library's own text: OpenSSL and BoringSSL have the same words for X509_V_ERR_CERT_NOT_YET_VALID
    and X509_V_ERR_CERT_HAS_EXPIRED. `now` is what this machine's clock says, in UTC.
    """
    clock = f"by this machine's clock, which says {now:%Y-%m-%d %H:%M} UTC"
    if "certificate is not yet valid" in said:
        return f"its certificate is not valid yet {clock}; set the clock: {SET_CLOCK}"
    if "certificate has expired" in said:
        return (
            f"its certificate has expired {clock}; set the clock if it is wrong ({SET_CLOCK}), else the gateway needs "
            "a new certificate: one of its own is renewed when it restarts"
        )
    return ""
