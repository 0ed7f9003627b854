import { Copy } from "../../parts/copy";
import { Field, LongField } from "../../parts/field";
import { Fields } from "../../parts/form";
import { Names } from "../../parts/names";
import type { LoginDraft, OidcDraft, SamlDraft } from "./login-draft";
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
