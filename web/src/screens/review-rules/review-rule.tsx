import { useConnections } from "../../api/lists";
import { useNames } from "../../api/names";
import { tagsOf } from "../../engines/coverage";
import { common } from "../../messages/common";
import { Choice, Toggle } from "../../parts/choice";
import { Coverage } from "../../parts/coverage";
import { Field, NumberField } from "../../parts/field";
import { Fields } from "../../parts/form";
import { Names, Pairs } from "../../parts/names";
import { RuleEditor } from "../../parts/rule-editor";
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
      <Field label={common.name} value={draft.name} onChange={(name) => set({ name })} maxLength={128} isRequired />
      <Field
        label={common.description}
        value={draft.description}
        onChange={(description) => set({ description })}
        maxLength={10_000}
      />
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
      <ConnectionFields draft={draft} set={set} />
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

function ConnectionFields({ draft, set }: FieldsProps) {
  const names = useConnections().map(({ name }) => name);
  return (
    <Fields title={text.editor.coversTitle}>
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
