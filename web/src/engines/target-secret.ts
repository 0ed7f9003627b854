// The secret of a connection as a form has it: its values are never read back, so an empty field keeps the stored one.

/** A value of a secret as it is typed. `kind` is how a command gets it: as a variable or as a file. */
export interface SecretField {
  kind: "envvar" | "filesystem";
  name: string;
  value: string;
  /** Whether the gateway has a value; an empty field keeps it if it is private. */
  isStored: boolean;
  /** Whether its value can never be read back. */
  isPrivate: boolean;
}

/** A key that the secret of a type of connections has. */
interface Key {
  name: string;
  is_private: boolean;
}

const REFERENCE = /^_[a-z]+\d?:/; // the gateway reads it from elsewhere at each session: it is no value

export const blankField: SecretField = { kind: "envvar", name: "", value: "", isStored: false, isPrivate: true };

/** Return the fields of a secret as the API answers it; `readable` are the values that are not private. */
export function fieldsOf(
  secret: Record<string, string | null>,
  readable: Record<string, string>,
  keys: readonly Key[],
): SecretField[] {
  const isPrivate = (name: string) => keys.find((key) => key.name === name)?.is_private ?? true;
  const stored = Object.keys(secret).map((key): SecretField => {
    const [kind, name] = splitKey(key);
    return { kind, name, value: secret[key] ?? readable[name] ?? "", isStored: true, isPrivate: isPrivate(name) };
  });
  const names = keys.map(({ name }) => name);
  const place = (name: string) => (names.includes(name) ? names.indexOf(name) : names.length); // others come last
  const missing = names.filter((name) => !stored.some((field) => field.name === name));
  const blank = missing.map((name): SecretField => ({ ...blankField, name, isPrivate: isPrivate(name) }));
  return [...stored, ...blank].sort((first, second) => place(first.name) - place(second.name));
}

/** Return the secret to send: null keeps what is stored, and what is left out is removed. */
export function secretOf(fields: readonly SecretField[]): Record<string, string | null> {
  const secret: Record<string, string | null> = {};
  for (const { kind, name, value, isStored, isPrivate } of fields) {
    if (!name) continue;
    const key = `${kind}:${name}`;
    if (value) secret[key] = REFERENCE.test(value) ? value : toBase64(value);
    else if (isStored && isPrivate) secret[key] = null;
  }
  return secret;
}

function splitKey(key: string): ["envvar" | "filesystem", string] {
  return [key.startsWith("filesystem:") ? "filesystem" : "envvar", key.slice(key.indexOf(":") + 1)];
}

function toBase64(text: string): string {
  let bytes = "";
  for (const byte of new TextEncoder().encode(text)) bytes += String.fromCharCode(byte);
  return btoa(bytes);
}
