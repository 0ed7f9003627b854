import { useEffect, useState } from "react";
import { common } from "../messages/common";
import { Button } from "./button";
import { Choice } from "./choice";
import { Field } from "./field";
import styles from "./filters.module.css";

export interface Filter<Name extends string> {
  name: Name;
  label: string;
  /** Values to choose from, each with its words; without them, a text is typed. */
  options?: readonly (readonly [string, string])[];
  /** What it is while it is not set, instead of "Any". */
  none?: string;
  type?: "text" | "date";
}

type Values<Name extends string> = { [key in Name]?: string };

interface Props<Name extends string> {
  filters: readonly Filter<Name>[];
  values: Values<Name>;
  /** All filters that are set from now on. */
  onChange: (values: Values<Name>) => void;
}

const ANY = "-any-";
const WIDE = "(min-width: 640px)"; // on a phone the list is more important than what it could be narrowed to

/** What a list is narrowed to. A text counts when Enter is pressed, or another field is chosen. */
export function Filters<Name extends string>({ filters, values, onChange }: Props<Name>) {
  const [startsOpen] = useState(() => window.matchMedia(WIDE).matches);
  const count = filters.filter(({ name }) => values[name]).length;
  const set = (name: Name, value: string) => {
    if (value === (values[name] ?? "")) return;
    const { [name]: _, ...others } = values;
    onChange((value ? { ...others, [name]: value } : others) as Values<Name>);
  };
  return (
    <details className={styles.filters} open={startsOpen}>
      <summary>{count ? common.filtersSet(count) : common.filters}</summary>
      <div className={styles.fields}>
        {filters.map(({ name, label, options, none, type }) =>
          options ? (
            <Choice
              key={name}
              label={label}
              value={values[name] ?? ANY}
              options={[[ANY, none ?? common.any], ...options]}
              onChange={(value) => set(name, value === ANY ? "" : value)}
            />
          ) : (
            <TextFilter
              key={name}
              label={label}
              type={type ?? "text"}
              value={values[name] ?? ""}
              onChange={(value) => set(name, value)}
            />
          ),
        )}
        {count > 0 && (
          <Button kind="quiet" onPress={() => onChange({})}>
            {common.clearFilters}
          </Button>
        )}
      </div>
    </details>
  );
}

interface TextFilterProps {
  label: string;
  type: "text" | "date";
  value: string;
  onChange: (value: string) => void;
}

function TextFilter({ label, type, value, onChange }: TextFilterProps) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  return (
    <Field
      label={label}
      type={type}
      value={typed}
      onChange={setTyped}
      onBlur={() => onChange(typed.trim())}
      onKeyDown={(event) => event.key === "Enter" && onChange(typed.trim())}
    />
  );
}
