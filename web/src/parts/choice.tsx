import { ChevronDown } from "lucide-react";
import { Button, Checkbox, Label, ListBox, ListBoxItem, Popover, Select, SelectValue } from "react-aria-components";
import { Hint } from "./field";
import styles from "./field.module.css";

interface ChoiceProps<Value extends string> {
  label: string;
  hint?: string;
  value: Value;
  /** Each value with its words. */
  options: readonly (readonly [Value, string])[];
  onChange: (value: Value) => void;
  isDisabled?: boolean;
  /** Whether the label is beside it, in a row of buttons. */
  isInline?: boolean;
}

/** A labelled choice of one of several values. */
export function Choice<Value extends string>({
  label,
  hint,
  value,
  options,
  onChange,
  isDisabled,
  isInline = false,
}: ChoiceProps<Value>) {
  return (
    <Select
      className={`${styles.field} ${isInline ? styles.inline : ""}`}
      value={value}
      onChange={(key) => onChange(key as Value)}
      isDisabled={isDisabled ?? false}
    >
      <Label>{label}</Label>
      <Button className={styles.choice ?? ""}>
        <SelectValue />
        <ChevronDown size={14} aria-hidden="true" />
      </Button>
      <Hint hint={hint} />
      <Popover>
        <ListBox className={styles.options ?? ""}>
          {options.map(([key, words]) => (
            <ListBoxItem key={key} id={key} textValue={words}>
              {words}
            </ListBoxItem>
          ))}
        </ListBox>
      </Popover>
    </Select>
  );
}

interface ToggleProps {
  label: string;
  hint?: string;
  isOn: boolean;
  onChange: (isOn: boolean) => void;
  isDisabled?: boolean;
}

/** Something that is on or off. */
export function Toggle({ label, hint, isOn, onChange, isDisabled }: ToggleProps) {
  return (
    <div className={styles.field}>
      <Checkbox className={styles.toggle ?? ""} isSelected={isOn} onChange={onChange} isDisabled={isDisabled ?? false}>
        {({ isSelected }) => (
          <>
            <span className={styles.box} aria-hidden="true">
              {isSelected ? "✓" : ""}
            </span>
            {label}
          </>
        )}
      </Checkbox>
      {hint !== undefined && <span className={styles.hint}>{hint}</span>}
    </div>
  );
}
