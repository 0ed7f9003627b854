import { useState } from "react";
import { instantOf, localMinute } from "../engines/times";
import { common } from "../messages/common";
import { Button } from "./button";
import { Choice } from "./choice";
import { Dialog } from "./dialog";
import { Field } from "./field";
import styles from "./filters.module.css";
import { Form } from "./form";
import { NameChoice } from "./name-choice";
import { Names } from "./names";

/** What can be set at once in a dialog. The values of a list are texts, and so are instants and numbers. */
export type DialogFilter<Name extends string> = { name: Name; label: string; hint?: string } & (
  | { kind: "text" | "number" | "instant" | "list" }
  | { kind: "choice"; options: readonly (readonly [string, string])[] }
  | { kind: "suggestions"; suggestions: readonly string[] }
);

type Value = string | readonly string[];
type Values = Readonly<Record<string, Value | undefined>>;

interface Props<Name extends string> {
  title: string;
  filters: readonly DialogFilter<Name>[];
  values: Values;
  /** All filters that are set from now on; those that are not are left out. */
  onChange: (values: Values) => void;
  onClose: () => void;
}

const ANY = "-any-";

/** All filters of a list, set at once. */
export function FilterDialog<Name extends string>({ title, filters, values, onChange, onClose }: Props<Name>) {
  const [draft, setDraft] = useState(values);
  const set = (name: Name, value: Value) => setDraft((before) => ({ ...before, [name]: value }));
  const apply = () => {
    onChange(Object.fromEntries(Object.entries(draft).filter(([, value]) => value !== undefined && value.length > 0)));
    onClose();
  };
  return (
    <Dialog title={title} isOpen onClose={onClose}>
      <Form
        submit={common.applyFilters}
        onSubmit={apply}
        isBusy={false}
        error={null}
        more={
          <>
            <Button onPress={onClose}>{common.cancel}</Button>
            <Button kind="quiet" onPress={() => setDraft({})}>
              {common.clearFilters}
            </Button>
          </>
        }
      >
        <div className={styles.columns}>
          {filters.map((filter) => (
            <FilterField
              key={filter.name}
              filter={filter}
              value={draft[filter.name]}
              onChange={(value) => set(filter.name, value)}
            />
          ))}
        </div>
      </Form>
    </Dialog>
  );
}

interface FieldProps {
  filter: DialogFilter<string>;
  value: Value | undefined;
  onChange: (value: Value) => void;
}

function FilterField({ filter, value, onChange }: FieldProps) {
  const { label, hint } = filter;
  const shared = { label, ...(hint !== undefined && { hint }) };
  const text = typeof value === "string" ? value : "";
  switch (filter.kind) {
    case "choice":
      return (
        <Choice
          {...shared}
          value={text || ANY}
          options={[[ANY, common.any], ...filter.options]}
          onChange={(chosen) => onChange(chosen === ANY ? "" : chosen)}
        />
      );
    case "suggestions":
      return <NameChoice {...shared} value={text} options={filter.suggestions} onChange={onChange} allowsOthers />;
    case "list":
      return <Names {...shared} value={Array.isArray(value) ? [...value] : []} onChange={onChange} />;
    case "instant":
      return (
        <Field
          {...shared}
          type="datetime-local"
          value={localMinute(text)}
          onChange={(local) => onChange(instantOf(local))}
        />
      );
    case "number":
      return (
        <Field
          {...shared}
          value={text}
          onChange={(typed) => onChange(typed.replace(/[^0-9.]/g, ""))}
          inputMode="decimal"
        />
      );
    default:
      return <Field {...shared} value={text} onChange={onChange} />;
  }
}
