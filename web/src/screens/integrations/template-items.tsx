import type { ReactNode } from "react";
import { Button } from "../../parts/button";
import { Choice, Toggle } from "../../parts/choice";
import { Field } from "../../parts/field";
import { Fields } from "../../parts/form";
import styles from "./integrations.module.css";
import { text } from "./messages";
import { type Asset, type Mapping, PRESETS, type Prompt, type TemplateDraft } from "./template-draft";

interface Props {
  draft: TemplateDraft;
  set: (part: Partial<TemplateDraft>) => void;
}

const SOURCES = Object.entries(text.template.sources) as [Mapping["type"], string][];
const FIELD_TYPES = Object.entries(text.template.fieldTypes) as [Prompt["field_type"], string][];
const MAPPING: Mapping = { type: "preset", tracker_field: "", value: PRESETS[0], description: "" };
const PROMPT: Prompt = { tracker_field: "", label: "", field_type: "text", required: false, description: "" };
const ASSET: Asset = { tracker_field: "", tracker_object_type: "", value: "", required: false, description: "" };

/** The fields of an issue: filled in by the gateway, asked of the user, or an asset. */
export function TemplateItems({ draft, set }: Props) {
  return (
    <>
      <Items
        title={text.template.mappings}
        add={text.template.addField}
        blank={MAPPING}
        items={draft.mapping_types.items}
        onChange={(items) => set({ mapping_types: { items } })}
      >
        {(item, change) => <MappingFields item={item} change={change} />}
      </Items>
      <Items
        title={text.template.prompts}
        add={text.template.addQuestion}
        blank={PROMPT}
        items={draft.prompt_types.items}
        onChange={(items) => set({ prompt_types: { items } })}
      >
        {(item, change) => <PromptFields item={item} change={change} />}
      </Items>
      <Items
        title={text.template.cmdbs}
        add={text.template.addAsset}
        blank={ASSET}
        items={draft.cmdb_types.items}
        onChange={(items) => set({ cmdb_types: { items } })}
      >
        {(item, change) => <AssetFields item={item} change={change} />}
      </Items>
    </>
  );
}

interface ItemsProps<Item> {
  title: string;
  add: string;
  blank: Item;
  items: Item[];
  onChange: (items: Item[]) => void;
  children: (item: Item, change: (part: Partial<Item>) => void) => ReactNode;
}

function Items<Item>({ title, add, blank, items, onChange, children }: ItemsProps<Item>) {
  return (
    <Fields title={title}>
      {items.map((item, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: rows have no identity but their place while they are typed
        <div key={index} className={styles.item}>
          {children(item, (part) =>
            onChange(items.map((other, place) => (place === index ? { ...other, ...part } : other))),
          )}
          <Button
            kind="quiet"
            aria-label={`${title}: ${text.template.removeRow(index + 1)}`}
            onPress={() => onChange(items.filter((_, place) => place !== index))}
          >
            ×
          </Button>
        </div>
      ))}
      <div>
        <Button onPress={() => onChange([...items, blank])}>{add}</Button>
      </div>
    </Fields>
  );
}

interface ItemProps<Item> {
  item: Item;
  change: (part: Partial<Item>) => void;
}

function MappingFields({ item, change }: ItemProps<Mapping>) {
  const presets = PRESETS.map((preset) => [preset as string, preset as string] as const);
  const options = PRESETS.some((preset) => preset === item.value)
    ? presets
    : [...presets, [item.value, item.value] as const];
  return (
    <>
      <Field
        label={text.template.field}
        value={item.tracker_field}
        onChange={(tracker_field) => change({ tracker_field })}
        isRequired
      />
      <Choice
        label={text.template.from}
        value={item.type}
        options={SOURCES}
        onChange={(type) => change({ type, value: type === "preset" ? PRESETS[0] : "" })}
      />
      {item.type === "preset" ? (
        <Choice
          label={text.template.value}
          value={item.value}
          options={options}
          onChange={(value) => change({ value })}
        />
      ) : (
        <Field label={text.template.value} value={item.value} onChange={(value) => change({ value })} isRequired />
      )}
    </>
  );
}

function PromptFields({ item, change }: ItemProps<Prompt>) {
  return (
    <>
      <Field
        label={text.template.field}
        value={item.tracker_field}
        onChange={(tracker_field) => change({ tracker_field })}
        isRequired
      />
      <Field label={text.template.label} value={item.label} onChange={(label) => change({ label })} isRequired />
      <Choice
        label={text.template.fieldType}
        value={item.field_type}
        options={FIELD_TYPES}
        onChange={(field_type) => change({ field_type })}
      />
      <Toggle label={text.template.required} isOn={item.required} onChange={(required) => change({ required })} />
    </>
  );
}

function AssetFields({ item, change }: ItemProps<Asset>) {
  return (
    <>
      <Field
        label={text.template.field}
        value={item.tracker_field}
        onChange={(tracker_field) => change({ tracker_field })}
        isRequired
      />
      <Field
        label={text.template.objectType}
        value={item.tracker_object_type}
        onChange={(tracker_object_type) => change({ tracker_object_type })}
        isRequired
      />
      <Field
        label={text.template.object}
        hint={text.template.objectHint}
        value={item.value}
        onChange={(value) => change({ value })}
      />
      <Toggle label={text.template.required} isOn={item.required} onChange={(required) => change({ required })} />
    </>
  );
}
