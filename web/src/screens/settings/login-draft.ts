import type { components } from "../../api/schema";

export type LoginSettings = components["schemas"]["AuthConfigAnswer"];
type Request = components["schemas"]["AuthConfigRequest"];
export type OidcDraft = Required<Omit<components["schemas"]["OidcRequest"], "client_secret">>;
export type SamlDraft = components["schemas"]["SamlRequest"];
export type LdapDraft = Required<Omit<components["schemas"]["LdapRequest"], "bind_password">>;

export interface LoginDraft {
  method: components["schemas"]["LoginMethod"];
  providerName: string;
  requiresSecondFactor: boolean;
  oidc: OidcDraft;
  /** What was typed; what is stored is never shown, and stays where nothing was typed. */
  clientSecret: string;
  saml: SamlDraft;
  ldap: LdapDraft;
  /** As `clientSecret`. */
  bindPassword: string;
}

const OIDC: OidcDraft = {
  ...{ issuer_url: "", client_id: "", audience: "", groups_claim: "groups", scopes: ["openid", "email", "profile"] },
};
const SAML: SamlDraft = {
  ...{ idp_metadata_url: "", idp_metadata: "", groups_claim: "groups" },
  ...{ email_attribute: "", name_attribute: "", subject_attribute: "" },
};

const LDAP: LdapDraft = {
  ...{ urls: [], base_dn: "", bind_dn: "", bind_template: "", start_tls: false, ca: "" },
  ...{ user_filter: "(uid={user})", login_attribute: "uid", id_attribute: "entryUUID" },
  ...{ email_attribute: "mail", name_attribute: "cn" },
  ...{ group_base_dn: "", group_filter: "", nested_groups: false },
};

export function draftOfLogin(settings: LoginSettings): LoginDraft {
  const { has_client_secret: _, ...oidc } = settings.oidc_config ?? { ...OIDC, has_client_secret: false };
  const { has_bind_password: _stored, ...ldap } = settings.ldap_config ?? { ...LDAP, has_bind_password: false };
  return {
    method: settings.auth_method,
    providerName: settings.provider_name,
    requiresSecondFactor: settings.require_second_factor,
    oidc,
    clientSecret: "",
    saml: settings.saml_config ?? SAML,
    ldap,
    bindPassword: "",
  };
}

/** Return the request that saves a draft. Settings of other methods are left out, and stay. */
export function loginBody(draft: LoginDraft, confirm: boolean): Request {
  const { method, providerName, requiresSecondFactor, oidc, clientSecret, saml, ldap, bindPassword } = draft;
  return {
    auth_method: method,
    provider_name: providerName,
    require_second_factor: requiresSecondFactor,
    confirm,
    ...(method === "oidc" && { oidc_config: { ...oidc, ...(clientSecret && { client_secret: clientSecret }) } }),
    ...(method === "saml" && { saml_config: saml }),
    ...(method === "ldap" && { ldap_config: { ...ldap, ...(bindPassword && { bind_password: bindPassword }) } }),
  };
}
