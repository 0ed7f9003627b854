import { useEffect, useState } from "react";
import { ComboBox, Input, Label, ListBox, ListBoxItem, Popover } from "react-aria-components";
import { common } from "../messages/common";
import { Hint } from "./field";
import styles from "./field.module.css";
import { MarkedText } from "./marked-text";

const MOST_SHOWN = 100; // who looks for another name types a part of it

interface Props {
  label: string;
  hint?: string;
  value: string;
  options: readonly string[];
  onChange: (name: string) => void;
  /** Whether a text that is no option can be the value, too. */
  allowsOthers?: boolean;
}

/** A choice of one name of many: type to find it. */
export function NameChoice({ label, hint, value, options, onChange, allowsOthers = false }: Props) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  const words = typed === value ? "" : typed.trim().toLowerCase();
  const items = options.filter((name) => name.toLowerCase().includes(words)).slice(0, MOST_SHOWN);
  const choose = (name: string) => {
    setTyped(name);
    if (name !== value) onChange(name);
  };
  const settle = () => {
    const name = typed.trim();
    if (allowsOthers || options.includes(name)) choose(name);
    else setTyped(value);
  };
  return (
    <ComboBox
      className={styles.field ?? ""}
      inputValue={typed}
      onInputChange={setTyped}
      value={value || null}
      onChange={(key) => key !== null && choose(String(key))}
      allowsCustomValue
      menuTrigger="focus"
      items={items.map((name) => ({ id: name }))}
      onBlur={settle}
      onKeyDown={({ key, target }) => {
        if (key === "Enter" && allowsOthers && !(target as Element).hasAttribute("aria-activedescendant")) settle();
      }}
    >
      <Label>{label}</Label>
      <Input className={styles.input ?? ""} placeholder={common.typeToFind} />
      <Hint hint={hint} />
      <Popover>
        <ListBox<{ id: string }> className={styles.options ?? ""}>
          {({ id }) => (
            <ListBoxItem id={id} textValue={id}>
              <MarkedText text={id} />
            </ListBoxItem>
          )}
        </ListBox>
      </Popover>
    </ComboBox>
  );
}
