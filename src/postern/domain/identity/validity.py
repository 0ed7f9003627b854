"""Certificates rejected for their dates: the cause is a wrong clock as often as age."""

from __future__ import annotations

from datetime import datetime

SET_CLOCK = "timedatectl set-ntp true"


def refused_for_its_dates(reason: str, now: datetime) -> str:
    """Return why a certificate was rejected for its dates, naming this machine's clock; empty for other reasons.

    `reason` is the TLS library's own text: OpenSSL and BoringSSL use the same words for X509_V_ERR_CERT_NOT_YET_VALID
    and X509_V_ERR_CERT_HAS_EXPIRED. `now` is this machine's clock, in UTC.
    """
    clock = f"by this machine's clock, which says {now:%Y-%m-%d %H:%M} UTC"
    if "certificate is not yet valid" in reason:
        return f"its certificate is not valid yet {clock}; set the clock: {SET_CLOCK}"
    if "certificate has expired" in reason:
        return (
            f"its certificate has expired {clock}; set the clock if it is wrong ({SET_CLOCK}), otherwise the gateway "
            "needs a new certificate: one that it created itself is renewed when it restarts"
        )
    return ""
