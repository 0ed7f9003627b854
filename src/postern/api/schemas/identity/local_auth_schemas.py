"""Bodies of logins to local accounts, and of second factors."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from postern.api.qr_codes import qr_path
from postern.api.schemas.common import Answer, Body
from postern.domain.identity.second_factor import FactorKind, SecondFactor
from postern.domain.secret import Secret
from postern.services.identity.logins.factor_check import FactorAnswer
from postern.services.identity.logins.local_login import SecondStep
from postern.services.identity.logins.second_factors import FactorEnrolment, FactorProof
from postern.services.identity.setup_links import SetupLink
from postern.services.identity.step_up import StepUpChallenge, StepUpProof

Kind = Annotated[FactorKind, Field(strict=False)]


class LoginRequest(Body):
    email: str
    password: str
    organization: str | None = Field(
        default=None, description="Organisation of the account; default: the default organisation"
    )


class RegisterRequest(Body):
    email: str
    password: str
    name: str | None = None


class SetupRequest(Body):
    token: str = Field(description="Token of the set-up link: the part after `#token=`")
    password: str = Field(description="At least 12 characters")
    name: str | None = None


class SecondFactorRequest(Body):
    """A proof: `code` for `totp` and `recovery`, `assertion` for `webauthn`."""

    ticket: str
    kind: Kind
    code: str | None = None
    assertion: dict[str, Any] | None = Field(default=None, description="Result of navigator.credentials.get(), as JSON")

    def answer(self) -> FactorAnswer:
        return FactorAnswer(self.kind, Secret(self.code) if self.code is not None else None, self.assertion)


class FactorAnswerShown(Answer):
    id: str
    kind: FactorKind
    name: str
    created_at: datetime
    last_used_at: datetime | None = None

    @classmethod
    def of(cls, factor: SecondFactor) -> FactorAnswerShown:
        return cls(
            id=str(factor.id),
            kind=factor.kind,
            name=factor.name,
            created_at=factor.created_at,
            last_used_at=factor.last_used_at,
        )


class LoginAnswer(Answer):
    """The result of a login. `ok`: the token is in the header `Token`, or in the cookie. `second_factor_required`: send
    the ticket to POST /localauth/second-factor within five minutes."""

    status: str = "ok"
    csrf_token: str | None = Field(
        default=None, description="Value for the header `X-CSRF-Token` of a browser's session"
    )
    ticket: str | None = None
    factors: list[FactorAnswerShown] | None = None
    webauthn: dict[str, Any] | None = Field(default=None, description="PublicKeyCredentialRequestOptions as JSON")

    @classmethod
    def from_second_step(cls, step: SecondStep) -> LoginAnswer:
        return cls(
            status="second_factor_required",
            ticket=step.ticket.reveal(),
            factors=[FactorAnswerShown.of(factor) for factor in step.factors],
            webauthn=dict(step.request) if step.request is not None else None,
        )


class ProofRequest(Body):
    """A proof that it is still the same user: the password, or a code of an authenticator app or a recovery code."""

    current_password: str | None = None
    code: str | None = None
    code_kind: Kind = FactorKind.TOTP

    def proof(self) -> FactorProof:
        return FactorProof(
            Secret(self.current_password) if self.current_password is not None else None,
            FactorAnswer(self.code_kind, Secret(self.code)) if self.code is not None else None,
        )


class StepUpRequest(Body):
    """A proof: `code` for `totp` and `recovery`; `assertion` and `ticket` for `webauthn`; `password` for an account
    without a second factor."""

    password: str | None = None
    kind: Kind | None = None
    code: str | None = None
    assertion: dict[str, Any] | None = Field(default=None, description="Result of navigator.credentials.get(), as JSON")
    ticket: str | None = Field(default=None, description="From POST /login/step-up/challenge")

    def proof(self) -> StepUpProof:
        answer = None
        if self.kind is not None:
            answer = FactorAnswer(self.kind, Secret(self.code) if self.code is not None else None, self.assertion)
        return StepUpProof(
            Secret(self.password) if self.password is not None else None,
            answer,
            Secret(self.ticket) if self.ticket is not None else None,
        )


class StepUpAnswer(Answer):
    fresh_until: datetime = Field(description="Until then the user counts as having proved recently who they are")


class StepUpChallengeAnswer(Answer):
    """What the user has to prove: one of the factors, or the password if there are none."""

    factors: list[FactorAnswerShown]
    ticket: str | None = Field(description="Belongs to the result of `webauthn`; valid once, for five minutes")
    webauthn: dict[str, Any] | None = Field(description="PublicKeyCredentialRequestOptions as JSON")

    @classmethod
    def of(cls, challenge: StepUpChallenge) -> StepUpChallengeAnswer:
        return cls(
            factors=[FactorAnswerShown.of(factor) for factor in challenge.factors],
            ticket=challenge.ticket.reveal() if challenge.ticket else None,
            webauthn=dict(challenge.request) if challenge.request is not None else None,
        )


class EnrolRequest(ProofRequest):
    kind: Kind
    name: str


class QrCodeAnswer(Answer):
    """A QR code to draw: a square of `size` units with a quiet zone around it."""

    size: int
    path: str = Field(description="Its dark modules as data of an SVG path")


class EnrolmentAnswer(Answer):
    """A new second factor, shown only once. `secret`, `uri` and `qr` are for an authenticator app, `webauthn` for
    navigator.credentials.create()."""

    id: str
    kind: FactorKind
    name: str
    secret: str | None = None
    uri: str | None = Field(default=None, description="otpauth:// address, as in the QR code")
    qr: QrCodeAnswer | None = Field(default=None, description="The QR code of `uri`")
    webauthn: dict[str, Any] | None = Field(default=None, description="PublicKeyCredentialCreationOptions as JSON")

    @classmethod
    def of(cls, enrolment: FactorEnrolment) -> EnrolmentAnswer:
        factor = enrolment.factor
        uri = enrolment.uri.reveal() if enrolment.uri else None
        return cls(
            id=str(factor.id),
            kind=factor.kind,
            name=factor.name,
            secret=enrolment.key.reveal() if enrolment.key else None,
            uri=uri,
            qr=_qr_code_of(uri) if uri else None,
            webauthn=dict(enrolment.creation) if enrolment.creation is not None else None,
        )


def _qr_code_of(text: str) -> QrCodeAnswer:
    size, path = qr_path(text)
    return QrCodeAnswer(size=size, path=path)


class ConfirmRequest(Body):
    code: str | None = None
    credential: dict[str, Any] | None = Field(
        default=None, description="Result of navigator.credentials.create(), as JSON"
    )


class RecoveryCodesAnswer(Answer):
    recovery_codes: list[str] = Field(description="Shown only once, with the first factor; each code works once")


class FactorsAnswer(Answer):
    data: list[FactorAnswerShown]
    recovery_codes_left: int


class SetupLinkAnswer(Answer):
    """A set-up link, shown only once; a newer one invalidates it."""

    email: str
    token: str
    url: str
    expires_at: datetime

    @classmethod
    def of(cls, link: SetupLink) -> SetupLinkAnswer:
        return cls(email=link.email, token=link.token.reveal(), url=link.url.reveal(), expires_at=link.expires_at)
