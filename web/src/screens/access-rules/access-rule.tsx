import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { useUser } from "../../api/account";
import { useConnections } from "../../api/lists";
import { useNames } from "../../api/names";
import { addressOf } from "../../api/resource";
import { tagsOf } from "../../engines/coverage";
import { common } from "../../messages/common";
import { Coverage } from "../../parts/coverage";
import { Field } from "../../parts/field";
import { Fields } from "../../parts/form";
import { Names, Pairs } from "../../parts/names";
import { Page } from "../../parts/page";
import { ResourceEditor } from "../../parts/resource-editor";
import { accessRules, BLANK, type Draft, draftOf, requestOf } from "./access-rule-data";
import { text } from "./messages";

export function NewAccessRuleScreen() {
  return (
    <Page title={text.editor.newTitle} aside={<Link to="/access-rules">{text.editor.all}</Link>}>
      <Editor name={undefined} />
    </Page>
  );
}

export function AccessRuleScreen() {
  const { name } = useParams({ from: "/shell/access-rules/$name" });
  return (
    <Page title={text.editor.title(name)} aside={<Link to="/access-rules">{text.editor.all}</Link>}>
      <Editor key={name} name={name} />
    </Page>
  );
}

function Editor({ name }: { name: string | undefined }) {
  const { is_admin } = useUser();
  const navigate = useNavigate();
  const moved = (next: string | null) =>
    void (next === null
      ? navigate({ to: "/access-rules" })
      : navigate({ to: "/access-rules/$name", params: { name: next } }));
  return (
    <ResourceEditor
      resource={accessRules}
      name={name}
      blank={BLANK}
      draftOf={draftOf}
      bodyOf={requestOf}
      nameOf={addressOf}
      onMoved={moved}
      isReadOnly={!is_admin}
      verbs={text.editor.verbs}
      deletion={{
        label: text.editor.delete,
        title: text.editor.deleteTitle(name ?? ""),
        text: text.editor.deleteText,
      }}
    >
      {(draft, set) => <RuleFields draft={draft} set={set} />}
    </ResourceEditor>
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
