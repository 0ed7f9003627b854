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
  /** Any key that begins with one of these can be added. */
  prefixes: string[];
  port: number | null;
  subtype: string;
  fields: SecretField[];
  onChange: (fields: SecretField[]) => void;
}

/** Where the target is, and how Postern logs in there. */
export function SecretFields({ keys, prefixes, port, subtype, fields, onChange }: Props) {
  const set = (index: number, part: Partial<SecretField>) =>
    onChange(fields.map((field, place) => (place === index ? { ...field, ...part } : field)));
  if (keys.length === 0) return <AnySecrets fields={fields} onChange={onChange} set={set} />;
  return (
    <>
      {fields.map((field, index) => {
        const key = keys.find(({ name }) => name === field.name);
        return key ? (
          <KnownSecret
            key={field.name}
            target={key}
            port={port}
            subtype={subtype}
            field={field}
            onChange={(value) => set(index, { value })}
          />
        ) : null;
      })}
      {prefixes.map((prefix) => (
        <PrefixedSecrets key={prefix} prefix={prefix} fields={fields} onChange={onChange} set={set} />
      ))}
    </>
  );
}

const OF_SEVERAL_LINES = new Set([
  ...["SSLROOTCERT", "SSLCERT", "SSLKEY"],
  ...["PRIVATE_KEY", "AUTHORIZED_SERVER_KEYS", "HOST_KEYS", "PUBLIC_KEY"],
]);
const SECRETS = new Set([
  ...["PASS", "PRIVATE_KEY_PASS", "CONNECTION_STRING"],
  ...["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"],
]);

interface KnownProps {
  target: TargetKey;
  port: number | null;
  subtype: string;
  field: SecretField;
  onChange: (value: string) => void;
}

function KnownSecret({ target, port, subtype, field, onChange }: KnownProps) {
  const labels: Record<string, string> = text.keys;
  const label = labels[target.name] ?? target.name;
  const isKept = field.isStored && target.is_private;
  const hints: Record<string, string> = { ...text.keyHints, ...text.keyHintsOf[subtype] };
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

/** Rows of keys with the same beginning, such as the headers that an application gets: HEADER_AUTHORIZATION. */
function PrefixedSecrets({ prefix, fields, onChange, set }: AnyProps & { prefix: string }) {
  const words = text.prefixes[prefix] ?? { title: `${prefix}…`, hint: "", name: text.variable, add: text.addSecret };
  return (
    // biome-ignore lint/a11y/useSemanticElements: the form has a fieldset around it already
    <div role="group" aria-label={words.title} className="stack">
      {words.hint && <p>{words.hint}</p>}
      {fields.map((field, index) =>
        field.name.startsWith(prefix) ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: rows have no identity but their place while they are typed
          <div key={index} className="row">
            <Field
              label={words.name}
              value={field.name.slice(prefix.length)}
              onChange={(name) => set(index, { name: prefix + keyOf(name) })}
              isRequired
              autoComplete="off"
            />
            <Field
              label={text.secretValue}
              hint={field.isStored ? text.kept : undefined}
              value={field.value}
              onChange={(value) => set(index, { value })}
              isRequired={!field.isStored}
              type="password"
              autoComplete="off"
            />
            <Button
              kind="quiet"
              aria-label={common.remove(field.name)}
              onPress={() => onChange(fields.filter((_, place) => place !== index))}
            >
              ×
            </Button>
          </div>
        ) : null,
      )}
      <div>
        <Button onPress={() => onChange([...fields, { ...blankField, name: prefix }])}>{words.add}</Button>
      </div>
    </div>
  );
}

/** The part of a key for a name as people write it: `X-Api-Key` becomes `X_API_KEY`. */
const keyOf = (name: string) => name.toUpperCase().replaceAll(/[^A-Z0-9]/g, "_");

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
