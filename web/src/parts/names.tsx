import { useRef, useState } from "react";
import { ComboBox, Input, Label, ListBox, ListBoxItem, Popover } from "react-aria-components";
import { common } from "../messages/common";
import { Button } from "./button";
import { Field, Hint } from "./field";
import styles from "./field.module.css";
import { MarkedText } from "./marked-text";

const MOST_SHOWN = 100; // names of a list; who looks for another types a part of it

interface NamesProps {
  label: string;
  hint?: string;
  value: string[];
  onChange: (names: string[]) => void;
  /** Names to choose from; without them, any text can be added. */
  options?: readonly string[];
  /** Whether a text that is no option can be added, too. */
  allowsOthers?: boolean;
}

/** A list of names: groups, connections, users. Type to find one, Enter adds it, its button removes it. */
export function Names({ label, hint, value, onChange, options = [], allowsOthers = options.length === 0 }: NamesProps) {
  const [typed, setTyped] = useState("");
  const isLeaving = useRef(false); // by Tab, which would choose the option at hand, too
  const add = (name: string) => {
    const trimmed = name.trim();
    setTyped("");
    if (trimmed && !value.includes(trimmed)) onChange([...value, trimmed]);
  };
  const isKnown = (name: string) => allowsOthers || options.includes(name.trim());
  return (
    <div
      className={styles.field}
      onKeyDownCapture={({ key }) => {
        isLeaving.current = key === "Tab";
      }}
    >
      <ComboBox
        className={styles.field ?? ""}
        inputValue={typed}
        onInputChange={setTyped}
        value={null}
        onChange={(key) => key !== null && !isLeaving.current && add(String(key))}
        allowsCustomValue
        menuTrigger="focus"
        items={matching(options, value, typed).map((name) => ({ id: name }))}
        onKeyDown={(event) => {
          if (event.key === "Enter" && typed.trim()) {
            event.preventDefault();
            if (isKnown(typed)) add(typed);
          }
        }}
        onBlur={() => {
          isLeaving.current = false;
          if (typed.trim() && isKnown(typed)) add(typed);
          else setTyped("");
        }}
      >
        <Label>{label}</Label>
        <Input className={styles.input ?? ""} placeholder={options.length ? common.typeToFind : common.typeToAdd} />
        <Hint hint={hint} />
        <Popover>
          <ListBox<{ id: string }> className={styles.options ?? ""}>
            {({ id }) => (
              <ListBoxItem id={id} textValue={id}>
                <MarkedText text={id} />
              </ListBoxItem>
            )}
          </ListBox>
          <p className={styles.note}>{common.staysOpen}</p>
        </Popover>
      </ComboBox>
      {value.length > 0 && (
        <ul className={styles.chosen} aria-label={common.chosen(label)}>
          {value.map((name) => (
            <li key={name}>
              <MarkedText text={name} />
              <Button
                kind="quiet"
                aria-label={common.remove(name)}
                onPress={() => onChange(value.filter((other) => other !== name))}
              >
                ×
              </Button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** The names that can still be chosen, and have what is typed in them. */
function matching(options: readonly string[], chosen: string[], typed: string): string[] {
  const words = typed.trim().toLowerCase();
  return options.filter((name) => !chosen.includes(name) && name.toLowerCase().includes(words)).slice(0, MOST_SHOWN);
}

interface PairsProps {
  label: string;
  nameLabel: string;
  valueLabel: string;
  value: [string, string][];
  onChange: (pairs: [string, string][]) => void;
}

/** Names with values, such as tags: each in a row of its own. */
export function Pairs({ label, nameLabel, valueLabel, value, onChange }: PairsProps) {
  const set = (index: number, pair: [string, string]) =>
    onChange(value.map((other, place) => (place === index ? pair : other)));
  return (
    <fieldset className={styles.pairs}>
      <legend>{label}</legend>
      {value.map(([name, words], index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: rows have no identity but their place while they are typed
        <div key={index} className="row">
          <Field label={nameLabel} value={name} onChange={(typed) => set(index, [typed, words])} />
          <Field label={valueLabel} value={words} onChange={(typed) => set(index, [name, typed])} />
          <Button
            kind="quiet"
            aria-label={common.remove(name)}
            onPress={() => onChange(value.filter((_, place) => place !== index))}
          >
            ×
          </Button>
        </div>
      ))}
      <Button onPress={() => onChange([...value, ["", ""]])}>{common.add}</Button>
    </fieldset>
  );
}
