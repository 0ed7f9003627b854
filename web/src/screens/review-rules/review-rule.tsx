import { useNames } from "../../api/names";
import { Choice, Toggle } from "../../parts/choice";
import { NumberField } from "../../parts/field";
import { Fields } from "../../parts/form";
import { Names } from "../../parts/names";
import { RuleEditor } from "../../parts/rule-editor";
import { CoverageFields, NameFields } from "../../parts/rule-fields";
import { text } from "./messages";
import { BLANK, type Draft, draftOf, requestOf, reviewRules } from "./review-rule-data";

export function ReviewRuleScreen() {
  return (
    <RuleEditor
      path="/review-rules"
      text={text.editor}
      deleteText={text.editor.deleteText}
      resource={reviewRules}
      blank={BLANK}
      draftOf={draftOf}
      bodyOf={requestOf}
    >
      {(draft, set) => <RuleFields draft={draft} set={set} />}
    </RuleEditor>
  );
}

interface FieldsProps {
  draft: Draft;
  set: (part: Partial<Draft>) => void;
}

function RuleFields({ draft, set }: FieldsProps) {
  return (
    <>
      <NameFields draft={draft} set={set} />
      <Choice
        label={text.editor.kind}
        value={draft.access_type}
        options={[
          ["jit_command", text.kinds.jit_command],
          ["jit", text.kinds.jit],
          ["command", text.kinds.command],
        ]}
        onChange={(access_type) => set({ access_type })}
      />
      <CoverageFields draft={draft} set={set} text={text.editor} />
      <WhoFields draft={draft} set={set} />
      <ApproverFields draft={draft} set={set} />
      {draft.access_type !== "command" && (
        <Fields title={text.editor.limitsTitle}>
          <NumberField
            label={text.editor.longest}
            hint={text.editor.longestHint}
            value={draft.minutes}
            onChange={(minutes) => set({ minutes })}
          />
        </Fields>
      )}
    </>
  );
}

function WhoFields({ draft, set }: FieldsProps) {
  const groups = useNames("/api/users/groups");
  return (
    <Fields title={text.editor.whoTitle}>
      <Choice
        label={text.editor.who}
        value={draft.who}
        options={[
          ["everybody", text.editor.everybody],
          ["except", text.editor.everybodyBut],
          ["only", text.editor.only],
        ]}
        onChange={(who) => set({ who })}
      />
      {draft.who !== "everybody" && (
        <Names
          label={draft.who === "only" ? text.editor.required : text.editor.skip}
          options={groups}
          value={draft.groups}
          onChange={(chosen) => set({ groups: chosen })}
          allowsOthers
        />
      )}
    </Fields>
  );
}

function ApproverFields({ draft, set }: FieldsProps) {
  const groups = useNames("/api/users/groups");
  return (
    <Fields title={text.editor.approversTitle}>
      <Names
        label={text.editor.reviewers}
        hint={text.editor.reviewersHint}
        options={groups}
        value={draft.reviewers_groups}
        onChange={(reviewers_groups) => set({ reviewers_groups })}
        allowsOthers
      />
      <Toggle
        label={text.editor.allGroups}
        isOn={draft.all_groups_must_approve}
        onChange={(all_groups_must_approve) => set({ all_groups_must_approve })}
      />
      <NumberField
        label={text.editor.minimum}
        hint={text.editor.minimumHint}
        value={draft.min_approvals}
        onChange={(min_approvals) => set({ min_approvals })}
        isRequired
      />
      <Names
        label={text.editor.force}
        hint={text.editor.forceHint}
        options={groups}
        value={draft.force_approval_groups}
        onChange={(force_approval_groups) => set({ force_approval_groups })}
        allowsOthers
      />
    </Fields>
  );
}
