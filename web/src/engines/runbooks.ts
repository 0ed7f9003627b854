// Runbooks in lists and forms: their folders, the order of their parameters, and what a run printed.

/** What a parameter of a runbook says about itself. */
export interface Parameter {
  description: string;
  required: boolean;
  type: string;
  default?: string | null;
  options?: string[] | null;
  order?: number | null;
}

type Metadata<Kind extends Parameter> = Readonly<Record<string, Kind>>;

/** Return the parameters in the order of a form: those with an `order` first, then as the runbook has them. */
export function inOrder<Kind extends Parameter>(metadata: Metadata<Kind>): [string, Kind][] {
  const rank = (parameter: Kind) => parameter.order ?? Number.POSITIVE_INFINITY;
  // Two without an order are as far from each other as NaN says: not at all, so that they keep their places.
  return Object.entries(metadata).sort(([, a], [, b]) => rank(a) - rank(b) || 0);
}

/** Return the values that a form begins with. Those of files are chosen, and never filled in. */
export function defaultsOf(metadata: Metadata<Parameter>): Record<string, string> {
  const values: Record<string, string> = {};
  for (const [name, parameter] of Object.entries(metadata))
    if (parameter.default && parameter.type !== "file") values[name] = parameter.default;
  return values;
}

/** Return the values to send: those of this runbook that are not empty, as an empty one is the same as none. */
export function sentValues(metadata: Metadata<Parameter>, values: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(values).filter(([name, value]) => value !== "" && name in metadata));
}

/** Return which required parameters have no value yet. */
export function missing(metadata: Metadata<Parameter>, values: Record<string, string>): string[] {
  return inOrder(metadata)
    .filter(([name, { required }]) => required && !values[name])
    .map(([name]) => name);
}

/** Return the folder of a path such as `/ops/db/unlock.runbook.sql`, and the name in it: `ops/db`, `unlock…`. */
export function splitPath(path: string): { folder: string; file: string } {
  const parts = path.split("/").filter(Boolean);
  return { folder: parts.slice(0, -1).join("/"), file: parts.at(-1) ?? "" };
}

export interface Folder<Item> {
  folder: string;
  items: Item[];
}

/** Group runbooks by their folder: the root first, then by name. */
export function byFolder<Item extends { name: string }>(items: readonly Item[]): Folder<Item>[] {
  const folders = new Map<string, Item[]>();
  for (const item of items) {
    const { folder } = splitPath(item.name);
    folders.set(folder, [...(folders.get(folder) ?? []), item]);
  }
  return [...folders].map(([folder, items]) => ({ folder, items })).sort((a, b) => (a.folder < b.folder ? -1 : 1));
}

export type Stream = "stdout" | "stderr" | "gateway";

export interface OutputPart {
  stream: Stream;
  text: string;
}

/**
 * Split what a command printed into its parts. `lengths` are the parts' streams and lengths in code points; without
 * them, all of it is one part.
 */
export function outputParts(output: string, lengths: readonly (readonly [Stream, number])[] | null): OutputPart[] {
  if (output === "") return [];
  if (lengths === null) return [{ stream: "stdout", text: output }];
  const characters = Array.from(output);
  const parts: OutputPart[] = [];
  let at = 0;
  for (const [stream, length] of lengths) {
    const text = characters.slice(at, at + length).join("");
    if (text) parts.push({ stream, text });
    at += length;
  }
  return parts;
}

/** Return the characters of a commit's name that say which one it is. */
export function shortCommit(commit: string): string {
  return commit.slice(0, 8);
}

/** Whether git reads this address over SSH, with a key instead of a password: `ssh://…` or `user@host:path`. */
export function isSshAddress(address: string): boolean {
  return /^ssh:\/\//i.test(address) || (!address.includes("://") && /^[^@/\s]+@[^:/\s]+:/.test(address));
}
