"""What the specifications of AWS's services have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from postern.protocols.spec import TargetKeys

if TYPE_CHECKING:
    from postern.agent.agent_policy import LocalPolicy
    from postern.agent.agent_protocols import Targets
    from postern.gateway.clients.session_setup import SessionSetup
    from postern.gateway.gateway_protocols import Gate, GateParts, TunnelServer
    from postern.protocols.aws.target.aws_targets import ServiceOf
    from postern.protocols.http.listener.credential_scheme import CredentialScheme

AWS_KEYS: Final = TargetKeys(
    port=0,  # it is in the URL
    required=(),
    one_of=("AWS_ACCESS_KEY_ID",),
    readable=(
        *("AWS_REGION", "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_ROLE_ARN", "AWS_EXTERNAL_ID"),
        "SSLMODE",
    ),
    private=("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "SSLROOTCERT"),
)
AWS_PRELOAD: Final = (
    "postern.protocols.aws.listener.aws_credential_scheme",
    "postern.protocols.aws.target.aws_targets",
)


class AwsParts:
    """The parts of a protocol that differ from the others of AWS by its name and its scheme of credentials. `scheme`
    and `service_of` import what they need when they are called."""

    def __init__(self, name: str, scheme: Callable[[], CredentialScheme], service_of: Callable[[], ServiceOf]) -> None:
        self._name = name
        self._scheme = scheme
        self._service_of = service_of

    def gate(self, parts: GateParts) -> Gate:
        from postern.protocols.http.listener.http_gate import HttpGate

        return HttpGate(parts, self._name, scheme=self._scheme())

    def local_port(self, fronts: SessionSetup) -> TunnelServer:
        from postern.protocols.http.listener.http_gate import HttpLocalPort

        return HttpLocalPort(fronts, self._name, scheme=self._scheme())

    def targets(self, policy: LocalPolicy, environ: Mapping[str, str]) -> Targets:
        from postern.protocols.aws.target.aws_targets import AwsTargets

        return AwsTargets(policy, self._service_of())


def exchange_of(output: bytes) -> int:
    """Return the number of the exchange that recorded bytes belong to."""
    from postern.protocols.http.recorded import exchange_numbers

    return exchange_numbers.exchange_of(output)
