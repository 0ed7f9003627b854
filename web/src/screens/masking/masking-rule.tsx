import type { ReactNode } from "react";
import { STRATEGIES } from "../../engines/masking-draft";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { Choice } from "../../parts/choice";
import { ConnectionIds } from "../../parts/connection-ids";
import { Fields } from "../../parts/form";
import { Names } from "../../parts/names";
import { WithPreset } from "../../parts/presets";
import { RuleEditor } from "../../parts/rule-editor";
import { NameFields } from "../../parts/rule-fields";
import { ColumnPicker } from "./column-picker";
import { blankDraft, type Draft, draftOf, maskingRules, presetsQuery, requestOf } from "./masking-data";
import { text } from "./messages";
import { Preview } from "./preview";
import { CustomTypes, TypeGroups } from "./types";

/** The form of a new masking rule, empty or filled in by the preset in the address. */
export function NewMaskingRuleScreen() {
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

export function MaskingRuleScreen() {
  return <Editor blank={blankDraft(undefined)} />;
}

/** `children` is what stands before the fields. */
function Editor({ blank, children }: { blank: Draft; children?: ReactNode }) {
  return (
    <RuleEditor
      path="/masking"
      text={text.editor}
      deleteText={({ connection_ids }) =>
        connection_ids.length
          ? text.editor.deleteText(counted(common.connections, connection_ids.length))
          : text.editor.deleteUnused
      }
      resource={maskingRules}
      blank={blank}
      draftOf={draftOf}
      bodyOf={requestOf}
      beside={(draft) => <Preview draft={draft} />}
    >
      {(draft, set) => (
        <>
          {children}
          <RuleFields draft={draft} set={set} />
        </>
      )}
    </RuleEditor>
  );
}

function RuleFields({ draft, set }: { draft: Draft; set: (part: Partial<Draft>) => void }) {
  return (
    <>
      <NameFields draft={draft} set={set} />
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
