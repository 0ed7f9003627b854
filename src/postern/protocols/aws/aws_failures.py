"""How failures of the gateway are called in AWS's errors. The name and the status decide whether an SDK tries again.

    the same request can succeed later    500 to 599, ThrottlingException    SDKs repeat it, a few times
    it cannot                             400, any other name                none of them repeats it

A killed session, and access that has ended, must not come back by themselves, although the next request would get a
session of its own.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from postern.protocols.http.http_frames import TargetFailure

ACCESS_DENIED: Final = "AccessDeniedException"
EXPIRED: Final = "ExpiredTokenException"
INTERNAL_ERROR: Final = "InternalServerError"
SERVICE_UNAVAILABLE: Final = "ServiceUnavailable"
THROTTLING: Final = "ThrottlingException"
UNRECOGNIZED_CLIENT: Final = "UnrecognizedClientException"
VALIDATION: Final = "ValidationException"


class AwsErrorName(NamedTuple):
    """Status and name of an error."""

    status: int
    code: str


_OF_FAILURES: Final = {
    "unavailable": AwsErrorName(503, SERVICE_UNAVAILABLE),
    "timeout": AwsErrorName(504, SERVICE_UNAVAILABLE),
    "ended": AwsErrorName(503, SERVICE_UNAVAILABLE),
    "killed": AwsErrorName(400, ACCESS_DENIED),
    "expired": AwsErrorName(400, EXPIRED),
}


def name_of_failure(failure: TargetFailure) -> AwsErrorName:
    """Return the error of a request that the target did not answer, or only in part."""
    return _OF_FAILURES.get(failure.code, AwsErrorName(502, INTERNAL_ERROR))
