import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useUser } from "../../api/account";
import { addressOf } from "../../api/resource";
import { STRATEGIES } from "../../engines/masking-draft";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { Choice } from "../../parts/choice";
import { ConnectionIds } from "../../parts/connection-ids";
import { Field } from "../../parts/field";
import { Fields } from "../../parts/form";
import { Names } from "../../parts/names";
import { Failure } from "../../parts/notice";
import { Page } from "../../parts/page";
import { ResourceEditor } from "../../parts/resource-editor";
import { Skeleton } from "../../parts/table";
import { ColumnPicker } from "./column-picker";
import { blankDraft, type Draft, draftOf, maskingRules, presetsQuery, requestOf } from "./masking-data";
import { text } from "./messages";
import { Preview } from "./preview";
import { CustomTypes, TypeGroups } from "./types";

const NO_PRESET = "";

/** The form of a new masking rule, empty or filled in by the preset in the address. */
export function NewMaskingRuleScreen() {
  const { preset } = useSearch({ from: "/shell/masking/new" });
  const presets = useQuery(presetsQuery);
  return (
    <Page title={text.editor.newTitle} aside={<Link to="/masking">{text.editor.all}</Link>}>
      {presets.error && <Failure error={presets.error} onRetry={() => void presets.refetch()} />}
      {presets.isPending && <Skeleton />}
      {presets.data && (
        <Editor
          key={preset ?? NO_PRESET}
          name={undefined}
          blank={blankDraft(presets.data.find(({ name }) => name === preset))}
        />
      )}
    </Page>
  );
}

export function MaskingRuleScreen() {
  const { name } = useParams({ from: "/shell/masking/$name" });
  return (
    <Page title={text.editor.title(name)} aside={<Link to="/masking">{text.editor.all}</Link>}>
      <Editor key={name} name={name} blank={blankDraft(undefined)} />
    </Page>
  );
}

function Editor({ name, blank }: { name: string | undefined; blank: Draft }) {
  const { is_admin } = useUser();
  const navigate = useNavigate();
  const moved = (next: string | null) =>
    void (next === null ? navigate({ to: "/masking" }) : navigate({ to: "/masking/$name", params: { name: next } }));
  return (
    <ResourceEditor
      resource={maskingRules}
      name={name}
      blank={blank}
      draftOf={draftOf}
      bodyOf={requestOf}
      nameOf={addressOf}
      onMoved={moved}
      isReadOnly={!is_admin}
      verbs={text.editor.verbs}
      deletion={{
        label: text.editor.delete,
        title: text.editor.deleteTitle(name ?? ""),
        text: ({ connection_ids }) =>
          connection_ids.length
            ? text.editor.deleteText(counted(common.connections, connection_ids.length))
            : text.editor.deleteUnused,
      }}
      beside={(draft) => <Preview draft={draft} />}
    >
      {(draft, set) => (
        <>
          {name === undefined && <PresetChoice />}
          <RuleFields draft={draft} set={set} />
        </>
      )}
    </ResourceEditor>
  );
}

function RuleFields({ draft, set }: { draft: Draft; set: (part: Partial<Draft>) => void }) {
  return (
    <>
      <Field label={common.name} value={draft.name} onChange={(name) => set({ name })} maxLength={128} isRequired />
      <Field
        label={common.description}
        value={draft.description}
        onChange={(description) => set({ description })}
        maxLength={10_000}
      />
      <ConnectionIds
        label={common.appliesTo}
        hint={text.editor.connectionsHint}
        value={draft.connection_ids}
        onChange={(connection_ids) => set({ connection_ids })}
      />
      <Fields title={text.editor.columnsTitle}>
        <Names
          label={text.editor.columns}
          hint={text.editor.columnsHint}
          value={draft.columns}
          onChange={(columns) => set({ columns })}
        />
        <ColumnPicker onPick={(picked) => set({ columns: [...new Set([...draft.columns, ...picked])] })} />
      </Fields>
      <TypeGroups draft={draft} set={set} />
      <CustomTypes types={draft.customTypes} onChange={(customTypes) => set({ customTypes })} />
      <Fields title={text.editor.behaviour}>
        <Choice
          label={text.editor.strategy}
          hint={text.editor.strategyHints[draft.strategy]}
          value={draft.strategy}
          options={STRATEGIES.map((strategy) => [strategy, text.strategies[strategy]] as const)}
          onChange={(strategy) => set({ strategy })}
        />
        <Choice
          label={text.editor.strictness}
          hint={text.editor.strictnessHint}
          value={draft.strictness}
          options={[
            ["strict", text.editor.strictnesses.strict],
            ["best_effort", text.editor.strictnesses.best_effort],
          ]}
          onChange={(strictness) => set({ strictness })}
        />
      </Fields>
    </>
  );
}

function PresetChoice() {
  const { preset = NO_PRESET } = useSearch({ from: "/shell/masking/new" });
  const navigate = useNavigate({ from: "/masking/new" });
  const presets = useQuery(presetsQuery).data ?? [];
  const chosen = presets.find(({ name }) => name === preset);
  return (
    <Choice
      label={text.editor.preset}
      hint={chosen?.description ?? text.editor.presetHint}
      value={chosen ? preset : NO_PRESET}
      options={[[NO_PRESET, text.editor.empty], ...presets.map(({ name }) => [name, name] as const)]}
      onChange={(name) => void navigate({ search: name ? { preset: name } : {} })}
    />
  );
}
