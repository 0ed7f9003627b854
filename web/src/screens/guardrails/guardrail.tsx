import { Link, useSearch } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { Toggle } from "../../parts/choice";
import { ConnectionIds } from "../../parts/connection-ids";
import { Notice } from "../../parts/notice";
import { WithPreset } from "../../parts/presets";
import { RuleEditor } from "../../parts/rule-editor";
import { NameFields } from "../../parts/rule-fields";
import { Views } from "../../parts/views";
import { blankDraft, type Draft, draftOf, type Guardrail, guardrails, presetsQuery, requestOf } from "./guardrail-data";
import { text } from "./messages";
import { PANELS } from "./panels";
import { RuleList } from "./rules";
import { SimulationPanel } from "./simulation";
import { TrialPanel } from "./trial";

/** The form of a new guardrail, empty or filled in by the preset in the address. */
export function NewGuardrailScreen() {
  return (
    <WithPreset query={presetsQuery} text={text.editor}>
      {(preset, choice) => (
        <Editor key={preset?.name} blank={blankDraft(preset)}>
          {choice}
        </Editor>
      )}
    </WithPreset>
  );
}

export function GuardrailScreen() {
  return <Editor blank={blankDraft(undefined)} />;
}

/** `children` is what stands before the fields. */
function Editor({ blank, children }: { blank: Draft; children?: ReactNode }) {
  return (
    <RuleEditor
      path="/guardrails"
      text={text.editor}
      deleteText={({ connection_ids }) =>
        connection_ids.length
          ? text.editor.deleteText(counted(common.connections, connection_ids.length))
          : text.editor.deleteUnused
      }
      resource={guardrails}
      blank={blank}
      draftOf={draftOf}
      bodyOf={requestOf}
      beside={(draft, saved) => <Panels draft={draft} saved={saved} />}
    >
      {(draft, set, saved) => (
        <>
          {saved?.notices?.map((notice) => (
            <Notice key={notice} kind="info">
              <p>{notice}</p>
            </Notice>
          ))}
          {children}
          <GuardrailFields draft={draft} set={set} />
        </>
      )}
    </RuleEditor>
  );
}

function GuardrailFields({ draft, set }: { draft: Draft; set: (part: Partial<Draft>) => void }) {
  return (
    <>
      <NameFields draft={draft} set={set} />
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

function Panels({ draft, saved }: { draft: Draft; saved: Guardrail | null }) {
  const { panel = "try" } = useSearch({ strict: false });
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
