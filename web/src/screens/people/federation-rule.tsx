import { useNames } from "../../api/names";
import { Toggle } from "../../parts/choice";
import { Field, NumberField } from "../../parts/field";
import { NameChoice } from "../../parts/name-choice";
import { Pairs } from "../../parts/names";
import { RuleEditor } from "../../parts/rule-editor";
import { NameFields } from "../../parts/rule-fields";
import { text } from "./federation-messages";
import { BLANK, type Draft, draftOf, federationRules, requestOf } from "./federation-rule-data";

export function FederationRuleScreen() {
  return (
    <RuleEditor
      path="/people/federation-rules"
      text={text.editor}
      deleteText={text.editor.deleteText}
      resource={federationRules}
      blank={{ ...BLANK, audience: window.location.origin }}
      draftOf={draftOf}
      bodyOf={requestOf}
    >
      {(draft, set) => <RuleFields draft={draft} set={set} />}
    </RuleEditor>
  );
}

function RuleFields({ draft, set }: { draft: Draft; set: (part: Partial<Draft>) => void }) {
  const accounts = useNames("/api/serviceaccounts");
  return (
    <>
      <NameFields draft={draft} set={set} />
      <NameChoice
        label={text.editor.account}
        hint={text.editor.accountHint}
        value={draft.service_account}
        options={accounts}
        onChange={(service_account) => set({ service_account })}
        allowsOthers
      />
      <Field
        label={text.editor.issuer}
        hint={text.editor.issuerHint}
        value={draft.issuer_url}
        onChange={(issuer_url) => set({ issuer_url })}
        isRequired
      />
      <Field
        label={text.editor.audience}
        hint={text.editor.audienceHint}
        value={draft.audience}
        onChange={(audience) => set({ audience })}
        isRequired
      />
      <Pairs
        label={text.editor.claims}
        nameLabel={text.editor.claim}
        valueLabel={text.editor.value}
        value={draft.claims}
        onChange={(claims) => set({ claims })}
      />
      <p className="secondary">{text.editor.claimsHint}</p>
      <NumberField
        label={text.editor.minutes}
        hint={text.editor.minutesHint}
        value={draft.minutes}
        onChange={(minutes) => set({ minutes })}
      />
      <Toggle
        label={text.editor.allowAdmin}
        isOn={draft.allow_admin}
        onChange={(allow_admin) => set({ allow_admin })}
      />
      <Toggle
        label={text.editor.allowReuse}
        hint={text.editor.allowReuseHint}
        isOn={draft.allow_reuse}
        onChange={(allow_reuse) => set({ allow_reuse })}
      />
      {draft.kept.jwks && <p className="secondary">{text.editor.keys}</p>}
    </>
  );
}
