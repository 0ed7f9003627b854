import { Toggle } from "../../parts/choice";
import { Names } from "../../parts/names";
import { RuleEditor } from "../../parts/rule-editor";
import { CoverageFields, GroupsField, NameFields } from "../../parts/rule-fields";

import { text } from "./messages";
import { BLANK, type Draft, draftOf, networkRules, requestOf } from "./network-rule-data";

export function NetworkRuleScreen() {
  return (
    <RuleEditor
      path="/network-rules"
      text={text.editor}
      deleteText={text.editor.deleteText}
      resource={networkRules}
      blank={BLANK}
      draftOf={draftOf}
      bodyOf={requestOf}
    >
      {(draft, set) => <RuleFields draft={draft} set={set} />}
    </RuleEditor>
  );
}

function RuleFields({ draft, set }: { draft: Draft; set: (part: Partial<Draft>) => void }) {
  return (
    <>
      <NameFields draft={draft} set={set} />
      <Toggle
        label={text.editor.enabled}
        hint={text.editor.enabledHint}
        isOn={draft.enabled}
        onChange={(enabled) => set({ enabled })}
      />
      <Names
        label={text.editor.networks}
        hint={text.editor.networksHint}
        value={draft.allowed_networks}
        onChange={(allowed_networks) => set({ allowed_networks })}
      />
      <GroupsField draft={draft} set={set} text={text.editor} />
      <CoverageFields draft={draft} set={set} text={text.editor} />
    </>
  );
}
