// Masking rules as a form edits them, and the samples that show what a rule does.

export const STRATEGIES = ["replace", "partial", "hash", "null"] as const;
export type Strategy = (typeof STRATEGIES)[number];
export type Strictness = "strict" | "best_effort";

export interface TypeGroup {
  /** It stays the same while the group is edited. */
  key: number;
  name: string;
  types: string[];
}

export interface CustomType {
  key: number;
  name: string;
  /** Whether it is found by words; by a pattern otherwise. */
  hasWords: boolean;
  regex: string;
  words: string[];
  score: number;
}

let lastKey = 0;

export function nextKey(): number {
  lastKey += 1;
  return lastKey;
}

export interface ScoredType {
  name: string;
  scores: readonly number[] | null;
}

/** Return the chosen types whose best match by form alone is below the threshold: they need a word near the value. */
export function needWords(chosen: readonly string[], types: readonly ScoredType[], threshold: number): string[] {
  const best = new Map(types.map(({ name, scores }) => [name, scores === null ? 1 : Math.max(...scores)]));
  return chosen.filter((name) => (best.get(name) ?? 1) < threshold);
}

/** The samples of a trial: lines of text, and one row of cells. */
export interface Samples {
  texts: string[];
  columns: string[];
  rows: (string | null)[][];
}

/** Return the samples in what was typed: each line is a text, and each filled-in pair a column with its value. */
export function samplesOf(lines: string, cells: readonly [string, string][]): Samples {
  const named = cells.filter(([column]) => column.trim());
  return {
    texts: lines.split("\n").filter((line) => line.trim()),
    columns: named.map(([column]) => column.trim()),
    rows: named.length > 0 ? [named.map(([, value]) => value)] : [],
  };
}
