import type { Parameter } from "../../api/runbooks";
import { markedWords } from "../../engines/marks";
import { inOrder } from "../../engines/runbooks";
import { Choice } from "../../parts/choice";
import { Field, LongField } from "../../parts/field";
import { FileField } from "../../parts/file-field";
import { text } from "./messages";

const NOTHING = ""; // what an optional choice is without a value
// Types of a template that fields of HTML have, too. A number stays a text: the gateway says what it takes for one.
const TYPES = new Set(["tel", "email", "url", "date", "time", "datetime-local", "password"]);

interface Props {
  metadata: Readonly<Record<string, Parameter>>;
  values: Readonly<Record<string, string>>;
  onChange: (name: string, value: string) => void;
}

/**
 * A field for each parameter of a runbook. Patterns are shown and left to the gateway: they are RE2 expressions of
 * other users, which the browser reads differently, and which could keep it busy forever.
 */
export function ParameterFields({ metadata, values, onChange }: Props) {
  const parameters = inOrder(metadata);
  if (parameters.length === 0) return <p className="secondary">{text.run.noParameters}</p>;
  return parameters.map(([name, parameter]) => (
    <ParameterField
      key={name}
      name={name}
      parameter={parameter}
      value={values[name] ?? ""}
      onChange={(value) => onChange(name, value)}
    />
  ));
}

interface FieldProps {
  name: string;
  parameter: Parameter;
  value: string;
  onChange: (value: string) => void;
}

function ParameterField({ name, parameter, value, onChange }: FieldProps) {
  const { type, required } = parameter;
  const shared = { label: name, hint: hintOf(parameter), value, onChange };
  if (parameter.options) return <OptionField name={name} parameter={parameter} value={value} onChange={onChange} />;
  if (type === "file") return <FileField {...shared} />;
  const placeholder = parameter.placeholder ? markedWords(parameter.placeholder) : undefined;
  if (type === "textarea") return <LongField {...shared} isRequired={required} placeholder={placeholder} />;
  return (
    <Field
      {...shared}
      isRequired={required}
      type={TYPES.has(type) ? type : "text"}
      autoComplete={type === "password" ? "new-password" : "off"}
      inputMode={type === "number" ? "decimal" : undefined}
      input={{ placeholder }}
    />
  );
}

function OptionField({ name, parameter, value, onChange }: FieldProps) {
  const options = (parameter.options ?? []).map((option) => [option, markedWords(option)] as const);
  const isKnown = options.some(([option]) => option === value);
  const hint = hintOf(parameter);
  return (
    <Choice
      label={name}
      {...(hint === undefined ? {} : { hint })}
      value={isKnown ? value : NOTHING}
      options={parameter.required && isKnown ? options : [[NOTHING, text.run.notChosen], ...options]}
      onChange={onChange}
    />
  );
}

function hintOf(parameter: Parameter): string | undefined {
  const { required, description, pattern, asenv } = parameter;
  const parts = [
    required && text.run.required,
    description,
    pattern && text.run.pattern(pattern),
    lengthsOf(parameter),
    asenv && text.run.inEnvironment(asenv),
    parameter.default && parameter.type !== "password" && text.run.defaultIs(parameter.default),
  ];
  return markedWords(parts.filter(Boolean).join(" ")) || undefined;
}

function lengthsOf({ minlength, maxlength }: Parameter): string {
  if (minlength && maxlength) return text.run.lengths.both(minlength, maxlength);
  if (minlength) return text.run.lengths.least(minlength);
  return maxlength ? text.run.lengths.most(maxlength) : "";
}
