import { useConnections } from "../../api/lists";
import { useNames } from "../../api/names";
import { tagsOf } from "../../engines/coverage";
import { common } from "../../messages/common";
import { Coverage } from "../../parts/coverage";
import { Field } from "../../parts/field";
import { Fields } from "../../parts/form";
import { Names, Pairs } from "../../parts/names";
import { RuleEditor } from "../../parts/rule-editor";
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
  const names = useConnections().map(({ name }) => name);
  const groups = useNames("/api/users/groups");
  return (
    <>
      <Field label={common.name} value={draft.name} onChange={(name) => set({ name })} maxLength={128} isRequired />
      <Field
        label={common.description}
        value={draft.description}
        onChange={(description) => set({ description })}
        maxLength={10_000}
      />
      <Names
        label={text.editor.groups}
        hint={text.editor.groupsHint}
        options={groups}
        value={draft.groups}
        onChange={(chosen) => set({ groups: chosen })}
        allowsOthers
      />
      <Fields title={text.editor.connectionsTitle}>
        <Names
          label={text.editor.names}
          hint={text.editor.namesHint}
          options={names}
          value={draft.connection_names}
          onChange={(connection_names) => set({ connection_names })}
          allowsOthers={false}
        />
        <Pairs
          label={common.tags}
          nameLabel={common.tagKey}
          valueLabel={common.tagValue}
          value={draft.tags}
          onChange={(tags) => set({ tags })}
        />
        <p className="secondary">{text.editor.tagsHint}</p>
        <Coverage rule={{ connection_names: draft.connection_names, connection_tags: tagsOf(draft.tags) }} />
      </Fields>
    </>
  );
}
