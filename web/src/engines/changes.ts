// What differs between two states of a resource, field by field.

type Fields = Record<string, unknown>;

export interface Change {
  /** Its path: `oidc_config.issuer_url`. */
  field: string;
  /** Undefined if the field was not there. */
  before: unknown;
  after: unknown;
}

/** Return the fields that differ, by name. Objects are compared field by field, lists as a whole. */
export function changesBetween(before: Fields | null, after: Fields | null): Change[] {
  const [old, now] = [new Map(leavesOf(before ?? {})), new Map(leavesOf(after ?? {}))];
  return [...new Set([...old.keys(), ...now.keys()])]
    .sort()
    .map((field) => ({ field, before: old.get(field), after: now.get(field) }))
    .filter((change) => JSON.stringify(change.before) !== JSON.stringify(change.after));
}

function leavesOf(fields: Fields, prefix = ""): [string, unknown][] {
  return Object.entries(fields).flatMap(([name, value]) =>
    isObject(value) && Object.keys(value).length > 0
      ? leavesOf(value, `${prefix}${name}.`)
      : [[prefix + name, value] as [string, unknown]],
  );
}

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Return a value as one would write it: a text as it is, anything else as JSON. */
export function valueText(value: unknown): string {
  if (value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}
