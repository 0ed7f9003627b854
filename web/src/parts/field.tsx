import { useState } from "react";
import {
  FieldError,
  Input,
  type InputProps,
  Label,
  Text,
  TextArea,
  TextField,
  type TextFieldProps,
} from "react-aria-components";
import styles from "./field.module.css";

interface Props extends TextFieldProps {
  label: string;
  hint?: string | undefined;
}

/** A labelled field of one line. What is wrong with it appears below it, and screen readers announce it. */
export function Field({ label, hint, input, ...props }: Props & { input?: InputProps }) {
  return (
    <TextField {...props} className={styles.field}>
      <Label>{label}</Label>
      <Input {...input} className={styles.input} />
      <Hint hint={hint} />
      <FieldError className={styles.error} />
    </TextField>
  );
}

/** A labelled field of several lines. */
export function LongField({
  label,
  hint,
  rows = 4,
  isCode,
  placeholder,
  ...props
}: Props & { rows?: number; isCode?: boolean; placeholder?: string | undefined }) {
  return (
    <TextField {...props} className={styles.field}>
      <Label>{label}</Label>
      <TextArea
        rows={rows}
        className={`${styles.multiline} ${isCode ? "mono" : ""}`}
        spellCheck={!isCode}
        placeholder={placeholder}
      />
      <Hint hint={hint} />
      <FieldError className={styles.error} />
    </TextField>
  );
}

/** A labelled field for a whole number; empty is null. */
export function NumberField({
  value,
  onChange,
  ...props
}: { label: string; hint?: string; isRequired?: boolean; isDisabled?: boolean } & {
  value: number | null;
  onChange: (value: number | null) => void;
}) {
  const change = (typed: string) => {
    const digits = typed.replace(/[^0-9]/g, "");
    onChange(digits === "" ? null : Number(digits));
  };
  return <Field {...props} value={value === null ? "" : String(value)} onChange={change} inputMode="numeric" />;
}

/** A labelled field for a number from 0 to 1; what is no number yet is not passed on. */
export function ShareField({
  value,
  onChange,
  ...props
}: { label: string; hint?: string } & { value: number; onChange: (value: number) => void }) {
  const [typed, setTyped] = useState(String(value));
  const change = (text: string) => {
    setTyped(text);
    const number = Number(text.replace(",", "."));
    if (text.trim() && number >= 0 && number <= 1) onChange(number);
  };
  const shown = Number(typed.replace(",", ".")) === value ? typed : String(value);
  return <Field {...props} value={typed} onChange={change} onBlur={() => setTyped(shown)} inputMode="decimal" />;
}

export function Hint({ hint }: { hint?: string | undefined }) {
  if (hint === undefined) return null;
  return (
    <Text slot="description" className={styles.hint}>
      {hint}
    </Text>
  );
}
