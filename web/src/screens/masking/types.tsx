import { useQuery } from "@tanstack/react-query";
import type { components } from "../../api/schema";
import { type CustomType, needWords, nextKey, type TypeGroup } from "../../engines/masking-draft";
import { Button } from "../../parts/button";
import { Choice } from "../../parts/choice";
import { Field, LongField, ShareField } from "../../parts/field";
import { Fields } from "../../parts/form";
import { Names } from "../../parts/names";
import { type Column, Table } from "../../parts/table";
import styles from "./masking.module.css";
import { type Draft, typesQuery } from "./masking-data";
import { text } from "./messages";

type InformationType = Omit<components["schemas"]["InformationTypeAnswer"], "scores"> & { scores: number[] | null };

const NONE: InformationType[] = [];
const CUSTOM_SCORE = 0.8; // the gateway's default

const SCORE_COLUMNS: Column<InformationType>[] = [
  { title: text.editor.type, cell: ({ name }) => <code>{name}</code> },
  { title: text.editor.score, cell: ({ scores }) => text.editor.scoreOf(scores) },
  { title: text.editor.words, cell: ({ words }) => words.join(", ") },
];

/** The information types of a rule in their groups, and how sure a match must be. */
export function TypeGroups({ draft, set }: { draft: Draft; set: (part: Partial<Draft>) => void }) {
  const types: InformationType[] = useQuery(typesQuery).data ?? NONE;
  const { groups, threshold } = draft;
  const replace = (group: TypeGroup) =>
    set({ groups: groups.map((other) => (other.key === group.key ? group : other)) });
  const add = () => set({ groups: [...groups, { key: nextKey(), name: `TYPES_${groups.length + 1}`, types: [] }] });
  return (
    <Fields title={text.editor.typesTitle}>
      <p className="secondary">{text.editor.typesAbout}</p>
      {groups.map((group, index) => (
        <Group
          key={group.key}
          title={text.editor.group(index + 1)}
          group={group}
          types={types}
          threshold={threshold}
          onChange={replace}
          onRemove={() => set({ groups: groups.filter(({ key }) => key !== group.key) })}
        />
      ))}
      <div>
        <Button onPress={add}>{text.editor.addGroup}</Button>
      </div>
      <ShareField
        label={text.editor.threshold}
        hint={text.editor.thresholdHint}
        value={threshold}
        onChange={(value) => set({ threshold: value })}
      />
      <details className={styles.scores}>
        <summary>{text.editor.scores}</summary>
        <Table label={text.editor.scores} columns={SCORE_COLUMNS} rows={types} keyOf={({ name }) => name} />
      </details>
    </Fields>
  );
}

interface GroupProps {
  title: string;
  group: TypeGroup;
  types: InformationType[];
  threshold: number;
  onChange: (group: TypeGroup) => void;
  onRemove: () => void;
}

function Group({ title, group, types, threshold, onChange, onRemove }: GroupProps) {
  const weak = needWords(group.types, types, threshold);
  return (
    <section aria-label={title} className={styles.item}>
      <Field
        label={text.editor.groupName}
        hint={text.editor.groupHint}
        value={group.name}
        onChange={(name) => onChange({ ...group, name })}
        maxLength={64}
      />
      <Names
        label={text.editor.types}
        options={types.map(({ name }) => name)}
        value={group.types}
        onChange={(chosen) => onChange({ ...group, types: chosen })}
      />
      {weak.length > 0 && <p className="secondary">{text.editor.needWords(weak.join(", "))}</p>}
      <div>
        <Button kind="quiet" aria-label={text.editor.removeOf(title)} onPress={onRemove}>
          {text.editor.removeGroup}
        </Button>
      </div>
    </section>
  );
}

interface CustomProps {
  types: CustomType[];
  onChange: (types: CustomType[]) => void;
}

/** Types that only this rule knows, found by a pattern or by words. */
export function CustomTypes({ types, onChange }: CustomProps) {
  const add = () =>
    onChange([...types, { key: nextKey(), name: "", hasWords: false, regex: "", words: [], score: CUSTOM_SCORE }]);
  return (
    <Fields title={text.editor.customTitle}>
      {types.map((type, index) => (
        <Custom
          key={type.key}
          title={text.editor.custom(index + 1)}
          type={type}
          onChange={(changed) => onChange(types.map((other) => (other.key === type.key ? changed : other)))}
          onRemove={() => onChange(types.filter(({ key }) => key !== type.key))}
        />
      ))}
      <div>
        <Button onPress={add}>{text.editor.addCustom}</Button>
      </div>
    </Fields>
  );
}

interface CustomTypeProps {
  title: string;
  type: CustomType;
  onChange: (type: CustomType) => void;
  onRemove: () => void;
}

function Custom({ title, type, onChange, onRemove }: CustomTypeProps) {
  return (
    <section aria-label={title} className={styles.item}>
      <Field
        label={text.editor.customName}
        hint={text.editor.groupHint}
        value={type.name}
        onChange={(name) => onChange({ ...type, name })}
        maxLength={64}
      />
      <Choice
        label={text.editor.kind}
        value={type.hasWords ? "words" : "regex"}
        options={[
          ["regex", text.editor.kinds.regex],
          ["words", text.editor.kinds.words],
        ]}
        onChange={(kind) => onChange({ ...type, hasWords: kind === "words" })}
      />
      {type.hasWords ? (
        <Names label={text.editor.denyList} value={type.words} onChange={(words) => onChange({ ...type, words })} />
      ) : (
        <LongField
          label={text.editor.pattern}
          hint={text.editor.patternHint}
          value={type.regex}
          onChange={(regex) => onChange({ ...type, regex })}
          rows={2}
          isCode
        />
      )}
      <ShareField label={text.editor.score} value={type.score} onChange={(score) => onChange({ ...type, score })} />
      <div>
        <Button kind="quiet" aria-label={text.editor.removeOf(title)} onPress={onRemove}>
          {text.editor.removeCustom}
        </Button>
      </div>
    </section>
  );
}
