import { RuleEditor } from "../../parts/rule-editor";
import { CoverageFields, GroupsField, NameFields } from "../../parts/rule-fields";
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
  return (
    <>
      <NameFields draft={draft} set={set} />
      <GroupsField draft={draft} set={set} text={text.editor} />
      <CoverageFields draft={draft} set={set} text={text.editor} />
    </>
  );
}
