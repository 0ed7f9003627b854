"""Bodies of organisations, their features, and how their users log in."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from postern.api.schemas.common import Answer, Body
from postern.domain.identity.auth_config import DEFAULT_SCOPES, AuthConfig, OidcConfig, SamlConfig
from postern.domain.identity.login import LoginMethod
from postern.domain.identity.organisation import Organisation
from postern.domain.secret import Secret
from postern.services.server.auth_settings import AuthFields, OidcFields
from postern.services.server.organisations import NewOrganisation, OrganisationFields


class OrganisationAnswer(Answer):
    id: str
    name: str
    admin_role_name: str = Field(description="Group whose members are administrators")
    auditor_role_name: str = Field(description="Group whose members are auditors")
    access_help: str = Field(description="Text shown to users when a rule denies something: how to request access")
    created_at: datetime
    deleting_at: datetime | None = Field(description="Time since when it is being deleted; only operators see it")

    @classmethod
    def of(cls, organisation: Organisation) -> OrganisationAnswer:
        return cls(
            id=str(organisation.id),
            name=organisation.name,
            admin_role_name=organisation.role_groups.admin,
            auditor_role_name=organisation.role_groups.auditor,
            access_help=organisation.access_help,
            created_at=organisation.created_at,
            deleting_at=organisation.deleting_at,
        )


class NewOrganisationAnswer(OrganisationAnswer):
    admin_email: str
    setup_url: str = Field(description="Set-up link for the first administrator; shown only once")
    setup_token: str = Field(description="Secret of that link")
    setup_expires_at: datetime

    @classmethod
    def from_new_organisation(cls, new: NewOrganisation) -> NewOrganisationAnswer:
        return cls(
            **OrganisationAnswer.of(new.organisation).model_dump(),
            admin_email=new.admin.email,
            setup_url=new.setup.url.reveal(),
            setup_token=new.setup.token.reveal(),
            setup_expires_at=new.setup.expires_at,
        )


class OrganisationRequest(Body):
    name: str
    admin_email: str = Field(description="E-mail address of its first administrator, who is invited")
    embedded_agent: bool = Field(False, description="Whether its connections can use the server's built-in agent")


class OrganisationChange(Body):
    """A change; fields that are left out or null keep their values."""

    read_only: ClassVar[frozenset[str]] = frozenset({"id", "created_at", "deleting_at"})

    name: str | None = None
    admin_role_name: str | None = None
    auditor_role_name: str | None = None
    access_help: str | None = Field(
        None, description="Text shown to users when a rule denies, holds or masks something; empty: the default text"
    )

    def fields(self) -> OrganisationFields:
        return OrganisationFields(self.name, self.admin_role_name, self.auditor_role_name, self.access_help)


class OrganisationFeatureRequest(Body):
    name: str
    status: Literal["enabled", "disabled"]


class OidcRequest(Body):
    read_only: ClassVar[frozenset[str]] = frozenset({"has_client_secret"})

    issuer_url: str
    client_id: str
    client_secret: str | None = Field(None, description="Never shown; left out or null: unchanged")
    scopes: list[str] = Field(default_factory=lambda: list(DEFAULT_SCOPES))
    audience: str = ""
    groups_claim: str = "groups"

    def fields(self) -> OidcFields:
        secret = None if self.client_secret is None else Secret(self.client_secret)
        return OidcFields(self.issuer_url, self.client_id, secret, tuple(self.scopes), self.audience, self.groups_claim)


class SamlRequest(Body):
    idp_metadata_url: str = ""
    idp_metadata: str = Field("", description="XML; takes precedence over the URL")
    groups_claim: str = "groups"
    subject_attribute: str = Field(
        "", description="Attribute with the permanent identifier of a user; empty: the NameID"
    )
    email_attribute: str = Field("", description="Attribute with the e-mail address; empty: common names are tried")
    name_attribute: str = Field("", description="Attribute with the display name; empty: common names are tried")


class AuthConfigRequest(Body):
    """The login settings. `oidc_config`, `saml_config` and the role names keep their values if they are left out or
    null."""

    auth_method: Annotated[LoginMethod, Field(strict=False)]
    oidc_config: OidcRequest | None = None
    saml_config: SamlRequest | None = None
    provider_name: str = ""
    admin_role_name: str | None = None
    auditor_role_name: str | None = None
    require_second_factor: bool = False
    confirm: bool = Field(False, description="Set it even if no administrator is known to be able to log in afterwards")

    def fields(self) -> AuthFields:
        return AuthFields(
            method=self.auth_method,
            oidc=self.oidc_config.fields() if self.oidc_config else None,
            saml=SamlConfig(**self.saml_config.model_dump()) if self.saml_config else None,
            provider_name=self.provider_name,
            require_second_factor=self.require_second_factor,
            admin_role_name=self.admin_role_name,
            auditor_role_name=self.auditor_role_name,
            confirm=self.confirm,
        )


class OidcAnswer(Answer):
    issuer_url: str
    client_id: str
    has_client_secret: bool
    scopes: list[str]
    audience: str
    groups_claim: str

    @classmethod
    def of(cls, config: OidcConfig) -> OidcAnswer:
        return cls(
            issuer_url=config.issuer_url,
            client_id=config.client_id,
            has_client_secret=bool(config.client_secret),
            scopes=list(config.scopes),
            audience=config.audience,
            groups_claim=config.groups_claim,
        )


class SamlAnswer(Answer):
    idp_metadata_url: str
    idp_metadata: str
    groups_claim: str
    subject_attribute: str
    email_attribute: str
    name_attribute: str


class AuthConfigAnswer(Answer):
    auth_method: LoginMethod
    oidc_config: OidcAnswer | None
    saml_config: SamlAnswer | None
    provider_name: str
    admin_role_name: str
    auditor_role_name: str
    require_second_factor: bool

    @classmethod
    def of(cls, config: AuthConfig, organisation: Organisation) -> AuthConfigAnswer:
        saml = config.saml
        return cls(
            auth_method=config.method,
            oidc_config=OidcAnswer.of(config.oidc) if config.oidc else None,
            saml_config=SamlAnswer(**asdict(saml)) if saml else None,
            provider_name=config.provider_name,
            admin_role_name=organisation.role_groups.admin,
            auditor_role_name=organisation.role_groups.auditor,
            require_second_factor=config.require_second_factor,
        )
