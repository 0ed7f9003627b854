"""Bodies of organisations, their features, and how their users log in."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from postern.api.schemas.common import NOT_IN_FILES, Answer, Body, secret
from postern.domain.identity.auth_config import DEFAULT_SCOPES, AuthConfig, LdapConfig, OidcConfig, SamlConfig
from postern.domain.identity.login import AUTH_METHODS, LoginMethod
from postern.domain.identity.organisation import Organisation
from postern.domain.secret import Secret
from postern.services.server.auth_settings import AuthFields, LdapFields, OidcFields
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
    client_secret: str | None = Field(
        None, description="Never shown; left out or null: unchanged", json_schema_extra=secret("has_client_secret")
    )
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


class LdapRequest(Body):
    read_only: ClassVar[frozenset[str]] = frozenset({"has_bind_password"})

    urls: list[str] = Field(description="Servers, tried in this order: ldaps://…, or ldap://… with start_tls")
    base_dn: str = Field(description="Entry below which users are")
    bind_dn: str = Field("", description="Account that searches for users; empty with bind_template")
    bind_password: str | None = Field(
        None,
        description="Never shown; left out or null: unchanged",
        json_schema_extra=secret("has_bind_password"),
    )
    bind_template: str = Field("", description="How users log in without a search: `{user}@corp.example`, or a DN")
    start_tls: bool = False
    ca: str = Field("", description="CA certificates of the servers (PEM); empty: those of the system")
    user_filter: str = "(uid={user})"
    login_attribute: str = Field("uid", description="Attribute with the name for {user} in group_filter")
    id_attribute: str = Field("entryUUID", description="Attribute with the permanent identifier: objectGUID in AD")
    email_attribute: str = "mail"
    name_attribute: str = "cn"
    group_base_dn: str = Field("", description="Entry below which groups count; empty: base_dn")
    group_filter: str = Field("", description="Finds the groups of {dn} or {user}; empty: the attribute memberOf")
    nested_groups: bool = Field(False, description="Also groups of groups, in Active Directory")

    def fields(self) -> LdapFields:
        values = self.model_dump(exclude={"bind_password"})
        password = None if self.bind_password is None else Secret(self.bind_password)
        return LdapFields(LdapConfig(**{**values, "urls": tuple(self.urls)}), password)


def _auth_method(method: LoginMethod) -> LoginMethod:
    if method not in AUTH_METHODS:
        raise ValueError(f"must be one of {', '.join(AUTH_METHODS)}; programs log in by federation rules besides")
    return method


class AuthConfigRequest(Body):
    """The login settings. `oidc_config`, `saml_config`, `ldap_config` and the role names keep their values if they are
    left out or null."""

    auth_method: Annotated[LoginMethod, Field(strict=False), AfterValidator(_auth_method)]
    oidc_config: OidcRequest | None = None
    saml_config: SamlRequest | None = None
    ldap_config: LdapRequest | None = None
    provider_name: str = ""
    admin_role_name: str | None = Field(None, json_schema_extra=NOT_IN_FILES)
    auditor_role_name: str | None = Field(None, json_schema_extra=NOT_IN_FILES)
    require_second_factor: bool = False
    confirm: bool = Field(
        False,
        description="Set it even if no administrator is known to be able to log in afterwards",
        json_schema_extra=NOT_IN_FILES,
    )

    def fields(self) -> AuthFields:
        return AuthFields(
            method=self.auth_method,
            oidc=self.oidc_config.fields() if self.oidc_config else None,
            saml=SamlConfig(**self.saml_config.model_dump()) if self.saml_config else None,
            ldap=self.ldap_config.fields() if self.ldap_config else None,
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


class LdapAnswer(Answer):
    urls: list[str]
    base_dn: str
    bind_dn: str
    has_bind_password: bool
    bind_template: str
    start_tls: bool
    ca: str
    user_filter: str
    login_attribute: str
    id_attribute: str
    email_attribute: str
    name_attribute: str
    group_base_dn: str
    group_filter: str
    nested_groups: bool

    @classmethod
    def of(cls, config: LdapConfig) -> LdapAnswer:
        values = {name: value for name, value in asdict(config).items() if name not in ("urls", "bind_password")}
        return cls(**values, urls=list(config.urls), has_bind_password=bool(config.bind_password))


class AuthConfigAnswer(Answer):
    auth_method: LoginMethod
    oidc_config: OidcAnswer | None
    saml_config: SamlAnswer | None
    ldap_config: LdapAnswer | None
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
            ldap_config=LdapAnswer.of(config.ldap) if config.ldap else None,
            provider_name=config.provider_name,
            admin_role_name=organisation.role_groups.admin,
            auditor_role_name=organisation.role_groups.auditor,
            require_second_factor=config.require_second_factor,
        )
