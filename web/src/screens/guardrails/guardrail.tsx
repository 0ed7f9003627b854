import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useUser } from "../../api/account";
import { addressOf } from "../../api/resource";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { Choice, Toggle } from "../../parts/choice";
import { ConnectionIds } from "../../parts/connection-ids";
import { Field } from "../../parts/field";
import { Failure, Notice } from "../../parts/notice";
import { Page } from "../../parts/page";
import { ResourceEditor } from "../../parts/resource-editor";
import { Skeleton } from "../../parts/table";
import { Views } from "../../parts/views";
import { blankDraft, type Draft, draftOf, type Guardrail, guardrails, presetsQuery, requestOf } from "./guardrail-data";
import { text } from "./messages";
import { PANELS, type Panel } from "./panels";
import { RuleList } from "./rules";
import { SimulationPanel } from "./simulation";
import { TrialPanel } from "./trial";

const NO_PRESET = "";

/** The form of a new guardrail, empty or filled in by the preset in the address. */
export function NewGuardrailScreen() {
  const { preset, panel = "try" } = useSearch({ from: "/shell/guardrails/new" });
  const presets = useQuery(presetsQuery);
  if (presets.error) return <Failure error={presets.error} onRetry={() => void presets.refetch()} />;
  return (
    <Page title={text.editor.newTitle} aside={<Link to="/guardrails">{text.editor.all}</Link>}>
      {presets.data ? (
        <Editor
          key={preset ?? NO_PRESET}
          name={undefined}
          blank={blankDraft(presets.data.find(({ name }) => name === preset))}
          panel={panel}
        />
      ) : (
        <Skeleton />
      )}
    </Page>
  );
}

export function GuardrailScreen() {
  const { name } = useParams({ from: "/shell/guardrails/$name" });
  const { panel = "try" } = useSearch({ from: "/shell/guardrails/$name" });
  return (
    <Page title={text.editor.title(name)} aside={<Link to="/guardrails">{text.editor.all}</Link>}>
      <Editor key={name} name={name} blank={blankDraft(undefined)} panel={panel} />
    </Page>
  );
}

interface EditorProps {
  name: string | undefined;
  blank: Draft;
  panel: Panel;
}

function Editor({ name, blank, panel }: EditorProps) {
  const { is_admin } = useUser();
  const navigate = useNavigate();
  const moved = (next: string | null) =>
    void (next === null
      ? navigate({ to: "/guardrails" })
      : navigate({ to: "/guardrails/$name", params: { name: next }, search: { panel } }));
  return (
    <ResourceEditor
      resource={guardrails}
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
      beside={(draft, saved) => <Panels draft={draft} saved={saved} panel={panel} />}
    >
      {(draft, set, saved) => (
        <>
          {saved?.notices?.map((notice) => (
            <Notice key={notice} kind="info">
              <p>{notice}</p>
            </Notice>
          ))}
          {name === undefined && <PresetChoice />}
          <GuardrailFields draft={draft} set={set} />
        </>
      )}
    </ResourceEditor>
  );
}

function GuardrailFields({ draft, set }: { draft: Draft; set: (part: Partial<Draft>) => void }) {
  return (
    <>
      <Field label={common.name} value={draft.name} onChange={(name) => set({ name })} maxLength={128} isRequired />
      <Field
        label={common.description}
        value={draft.description}
        onChange={(description) => set({ description })}
        maxLength={10_000}
      />
      <Toggle
        label={text.editor.enabled}
        hint={text.editor.enabledHint}
        isOn={draft.enabled}
        onChange={(enabled) => set({ enabled })}
      />
      <ConnectionIds
        label={common.appliesTo}
        hint={text.editor.connectionsHint}
        value={draft.connection_ids}
        onChange={(connection_ids) => set({ connection_ids })}
      />
      <RuleList side="input" rules={draft.input} onChange={(input) => set({ input })} />
      <RuleList side="output" rules={draft.output} onChange={(output) => set({ output })} />
    </>
  );
}

function PresetChoice() {
  const { preset = NO_PRESET } = useSearch({ from: "/shell/guardrails/new" });
  const navigate = useNavigate({ from: "/guardrails/new" });
  const presets = useQuery(presetsQuery).data ?? [];
  const chosen = presets.find(({ name }) => name === preset);
  return (
    <Choice
      label={text.editor.preset}
      hint={chosen?.description ?? text.editor.presetHint}
      value={chosen ? preset : NO_PRESET}
      options={[[NO_PRESET, text.editor.empty], ...presets.map(({ name }) => [name, name] as const)]}
      onChange={(name) => void navigate({ search: (before) => ({ ...before, preset: name || undefined }) })}
    />
  );
}

interface PanelProps {
  draft: Draft;
  saved: Guardrail | null;
  panel: Panel;
}

function Panels({ draft, saved, panel }: PanelProps) {
  return (
    <>
      <Views label={text.editor.panels}>
        {PANELS.map((name) => (
          <Link
            key={name}
            to="."
            search={(before) => ({ ...before, panel: name })}
            aria-current={panel === name ? "page" : undefined}
          >
            {text.editor.panel[name]}
          </Link>
        ))}
      </Views>
      {panel === "try" ? <TrialPanel draft={draft} /> : <SimulationPanel draft={draft} saved={saved} />}
    </>
  );
}
