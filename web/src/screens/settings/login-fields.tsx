import { Toggle } from "../../parts/choice";
import { Copy } from "../../parts/copy";
import { Field, LongField } from "../../parts/field";
import { Fields } from "../../parts/form";
import { Names } from "../../parts/names";
import type { LdapDraft, LoginDraft, OidcDraft, SamlDraft } from "./login-draft";
import { text } from "./messages";

interface Props {
  draft: LoginDraft;
  set: (part: Partial<LoginDraft>) => void;
  isReadOnly: boolean;
}

export function OidcFields({ draft, set, hasSecret, isReadOnly }: Props & { hasSecret: boolean }) {
  const { oidc } = draft;
  const change = (part: Partial<OidcDraft>) => set({ oidc: { ...oidc, ...part } });
  return (
    <Fields title={text.login.oidc}>
      <div className="stack">
        <span>{text.login.callback}</span>
        <Copy label={text.login.callback} text={`${window.location.origin}/api/callback`} />
      </div>
      <Field
        label={text.login.issuer}
        value={oidc.issuer_url}
        onChange={(issuer_url) => change({ issuer_url })}
        isRequired
        isDisabled={isReadOnly}
      />
      <Field
        label={text.login.clientId}
        value={oidc.client_id}
        onChange={(client_id) => change({ client_id })}
        isRequired
        isDisabled={isReadOnly}
      />
      <Field
        label={text.login.clientSecret}
        type="password"
        autoComplete="off"
        hint={hasSecret ? text.login.secretStored : undefined}
        value={draft.clientSecret}
        onChange={(clientSecret) => set({ clientSecret })}
        isDisabled={isReadOnly}
      />
      <Field
        label={text.login.groupsClaim}
        value={oidc.groups_claim}
        onChange={(groups_claim) => change({ groups_claim })}
        isDisabled={isReadOnly}
      />
      <Field
        label={text.login.audience}
        hint={text.login.audienceHint}
        value={oidc.audience}
        onChange={(audience) => change({ audience })}
        isDisabled={isReadOnly}
      />
      <Names label={text.login.scopes} value={oidc.scopes} onChange={(scopes) => change({ scopes })} />
    </Fields>
  );
}

export function LdapFields({ draft, set, hasSecret, isReadOnly }: Props & { hasSecret: boolean }) {
  const { ldap } = draft;
  const change = (part: Partial<LdapDraft>) => set({ ldap: { ...ldap, ...part } });
  const field = (name: keyof typeof text.login.ldapFields) => (
    <Field
      label={text.login.ldapFields[name][0]}
      hint={text.login.ldapFields[name][1]}
      value={ldap[name]}
      onChange={(value) => change({ [name]: value })}
      isDisabled={isReadOnly}
    />
  );
  return (
    <Fields title={text.login.ldap}>
      <Names
        label={text.login.ldapServers}
        hint={text.login.ldapServersHint}
        value={ldap.urls}
        onChange={(urls) => change({ urls })}
      />
      <Toggle
        label={text.login.startTls}
        isOn={ldap.start_tls}
        onChange={(start_tls) => change({ start_tls })}
        isDisabled={isReadOnly}
      />
      <LongField
        label={text.login.ldapCa}
        hint={text.login.ldapCaHint}
        isCode
        value={ldap.ca}
        onChange={(ca) => change({ ca })}
        isDisabled={isReadOnly}
      />
      {field("base_dn")}
      {field("bind_dn")}
      <Field
        label={text.login.bindPassword}
        type="password"
        autoComplete="off"
        hint={hasSecret ? text.login.passwordStored : undefined}
        value={draft.bindPassword}
        onChange={(bindPassword) => set({ bindPassword })}
        isDisabled={isReadOnly}
      />
      {field("bind_template")}
      {field("user_filter")}
      {field("login_attribute")}
      {field("id_attribute")}
      {field("email_attribute")}
      {field("name_attribute")}
      {field("group_base_dn")}
      {field("group_filter")}
      <Toggle
        label={text.login.nestedGroups}
        isOn={ldap.nested_groups}
        onChange={(nested_groups) => change({ nested_groups })}
        isDisabled={isReadOnly}
      />
    </Fields>
  );
}

export function SamlFields({ draft, set, isReadOnly }: Props) {
  const { saml } = draft;
  const change = (part: Partial<SamlDraft>) => set({ saml: { ...saml, ...part } });
  const attributes = [
    ["groups_claim", text.login.groupsAttribute, undefined],
    ["email_attribute", text.login.emailAttribute, text.login.attributeHint],
    ["name_attribute", text.login.nameAttribute, text.login.attributeHint],
    ["subject_attribute", text.login.subjectAttribute, text.login.subjectHint],
  ] as const;
  return (
    <Fields title={text.login.saml}>
      <Field
        label={text.login.metadataUrl}
        value={saml.idp_metadata_url}
        onChange={(idp_metadata_url) => change({ idp_metadata_url })}
        isDisabled={isReadOnly}
      />
      <LongField
        label={text.login.metadata}
        hint={text.login.metadataHint}
        isCode
        value={saml.idp_metadata}
        onChange={(idp_metadata) => change({ idp_metadata })}
        isDisabled={isReadOnly}
      />
      {attributes.map(([name, label, hint]) => (
        <Field
          key={name}
          label={label}
          hint={hint}
          value={saml[name]}
          onChange={(value) => change({ [name]: value })}
          isDisabled={isReadOnly}
        />
      ))}
    </Fields>
  );
}
