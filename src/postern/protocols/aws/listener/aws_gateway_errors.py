"""What the gateway's own errors are called in AWS's, by class: those of logins, admission, dialling and sessions."""

from __future__ import annotations

from typing import Final

from postern.domain.sessions.session import EndReason
from postern.errors import (
    Conflict,
    Denied,
    Gone,
    Invalid,
    Malformed,
    NotFound,
    PosternError,
    PreconditionFailed,
    TooMany,
    Unauthenticated,
    Unavailable,
    Unreachable,
)
from postern.gateway.session_opening import SessionAborted
from postern.protocols.aws.aws_failures import (
    ACCESS_DENIED,
    EXPIRED,
    INTERNAL_ERROR,
    SERVICE_UNAVAILABLE,
    THROTTLING,
    UNRECOGNIZED_CLIENT,
    VALIDATION,
    AwsErrorName,
)
from postern.protocols.aws.sigv4_verification import SignatureRefused
from postern.protocols.http.http_syntax import HttpSyntaxError
from postern.protocols.http.listener.http_relay import ExchangeFailed
from postern.services.admission import CredentialEnded

# The first class that fits.
_BY_CLASS: Final[tuple[tuple[type[PosternError], AwsErrorName], ...]] = (
    (CredentialEnded, AwsErrorName(400, EXPIRED)),
    (Unauthenticated, AwsErrorName(400, UNRECOGNIZED_CLIENT)),
    (Unreachable, AwsErrorName(503, SERVICE_UNAVAILABLE)),
    (Unavailable, AwsErrorName(503, SERVICE_UNAVAILABLE)),
    (TooMany, AwsErrorName(400, THROTTLING)),
    (Denied, AwsErrorName(400, ACCESS_DENIED)),
    (NotFound, AwsErrorName(400, ACCESS_DENIED)),  # of a connection that its user cannot see
    (Gone, AwsErrorName(400, ACCESS_DENIED)),
    *((kind, AwsErrorName(400, VALIDATION)) for kind in (Malformed, Invalid, Conflict, PreconditionFailed)),
)
_BY_END: Final = {
    **dict.fromkeys((EndReason.REVOKED, EndReason.EXPIRED), AwsErrorName(400, EXPIRED)),
    **dict.fromkeys((EndReason.KILLED, EndReason.REJECTED, EndReason.WITHDRAWN), AwsErrorName(400, ACCESS_DENIED)),
}
_REQUEST_TIMEOUT: Final = 408


def name_of_error(error: PosternError) -> AwsErrorName:
    """Return status and name of an error of the gateway. What is not known is an internal error."""
    if isinstance(error, SignatureRefused):
        return AwsErrorName(400, error.code)
    if isinstance(error, SessionAborted):
        return _BY_END.get(error.reason, AwsErrorName(503, SERVICE_UNAVAILABLE))
    if isinstance(error, HttpSyntaxError):
        code = "RequestTimeoutException" if error.status == _REQUEST_TIMEOUT else VALIDATION
        return AwsErrorName(error.status, code)
    if isinstance(error, ExchangeFailed):
        return AwsErrorName(error.status, SERVICE_UNAVAILABLE)
    return next((name for kind, name in _BY_CLASS if isinstance(error, kind)), AwsErrorName(500, INTERNAL_ERROR))
