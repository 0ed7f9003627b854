import type { components } from "../../api/schema";
import { blankField, type SecretField } from "../../engines/target-secret";
import { common } from "../../messages/common";
import { Button } from "../../parts/button";
import { Choice } from "../../parts/choice";
import { Field, LongField } from "../../parts/field";
import { text } from "./messages";

type TargetKey = components["schemas"]["TargetKeyAnswer"];

interface Props {
  /** The keys of the target; none for a command, which takes any. */
  keys: TargetKey[];
  port: number | null;
  fields: SecretField[];
  onChange: (fields: SecretField[]) => void;
}

/** Where the target is, and how Postern logs in there. */
export function SecretFields({ keys, port, fields, onChange }: Props) {
  const set = (index: number, part: Partial<SecretField>) =>
    onChange(fields.map((field, place) => (place === index ? { ...field, ...part } : field)));
  if (keys.length === 0) return <AnySecrets fields={fields} onChange={onChange} set={set} />;
  return fields.map((field, index) => {
    const key = keys.find(({ name }) => name === field.name);
    return key ? (
      <KnownSecret
        key={field.name}
        target={key}
        port={port}
        field={field}
        onChange={(value) => set(index, { value })}
      />
    ) : null;
  });
}

const OF_SEVERAL_LINES = new Set(["SSLROOTCERT", "PRIVATE_KEY", "AUTHORIZED_SERVER_KEYS", "HOST_KEYS", "PUBLIC_KEY"]);
const SECRETS = new Set(["PASS", "PRIVATE_KEY_PASS"]);

interface KnownProps {
  target: TargetKey;
  port: number | null;
  field: SecretField;
  onChange: (value: string) => void;
}

function KnownSecret({ target, port, field, onChange }: KnownProps) {
  const labels: Record<string, string> = text.keys;
  const label = labels[target.name] ?? target.name;
  const isKept = field.isStored && target.is_private;
  const hints: Record<string, string> = text.keyHints;
  const hint = isKept ? text.kept : (hints[target.name] ?? undefined);
  if (OF_SEVERAL_LINES.has(target.name))
    return <LongField label={label} hint={hint} value={field.value} onChange={onChange} rows={3} isCode />;
  return (
    <Field
      label={label}
      hint={hint}
      value={field.value}
      onChange={onChange}
      isRequired={target.is_required && !isKept}
      type={SECRETS.has(target.name) ? "password" : "text"}
      autoComplete="off"
      input={target.name === "PORT" && port !== null ? { placeholder: String(port) } : {}}
    />
  );
}

interface AnyProps {
  fields: SecretField[];
  onChange: (fields: SecretField[]) => void;
  set: (index: number, part: Partial<SecretField>) => void;
}

function AnySecrets({ fields, onChange, set }: AnyProps) {
  return (
    // biome-ignore lint/a11y/useSemanticElements: the form has a fieldset around it already
    <div role="group" aria-label={text.secrets} className="stack">
      <p>{text.secretsHint}</p>
      {fields.map((field, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: rows have no identity but their place while they are typed
        <div key={index} className="row">
          <Choice
            label={text.secretKind}
            value={field.kind}
            options={[
              ["envvar", text.asVariable],
              ["filesystem", text.asFile],
            ]}
            onChange={(kind) => set(index, { kind })}
          />
          <Field label={text.variable} value={field.name} onChange={(name) => set(index, { name })} />
          <LongField
            label={text.secretValue}
            hint={field.isStored ? text.kept : undefined}
            value={field.value}
            onChange={(value) => set(index, { value })}
            rows={1}
            isCode
          />
          <Button
            kind="quiet"
            aria-label={common.remove(field.name)}
            onPress={() => onChange(fields.filter((_, place) => place !== index))}
          >
            ×
          </Button>
        </div>
      ))}
      <div>
        <Button onPress={() => onChange([...fields, blankField])}>{text.addSecret}</Button>
      </div>
    </div>
  );
}
