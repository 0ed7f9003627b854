import { useNames } from "../../api/names";
import { Names } from "../../parts/names";
import { RuleEditor } from "../../parts/rule-editor";
import { CoverageFields, NameFields } from "../../parts/rule-fields";
import { accessRules, BLANK, type Draft, draftOf, requestOf } from "./access-rule-data";
import { text } from "./messages";

export function AccessRuleScreen() {
  return (
    <RuleEditor
      path="/access-rules"
      text={text.editor}
      deleteText={text.editor.deleteText}
      resource={accessRules}
      blank={BLANK}
      draftOf={draftOf}
      bodyOf={requestOf}
    >
      {(draft, set) => <RuleFields draft={draft} set={set} />}
    </RuleEditor>
  );
}

function RuleFields({ draft, set }: { draft: Draft; set: (part: Partial<Draft>) => void }) {
  const groups = useNames("/api/users/groups");
  return (
    <>
      <NameFields draft={draft} set={set} />
      <Names
        label={text.editor.groups}
        hint={text.editor.groupsHint}
        options={groups}
        value={draft.groups}
        onChange={(chosen) => set({ groups: chosen })}
        allowsOthers
      />
      <CoverageFields draft={draft} set={set} text={text.editor} />
    </>
  );
}
