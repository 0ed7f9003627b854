// Drafts of scripts: what a user has typed for a connection, one for each tab of the editor. They stay in the browser.

/** The run of a script, so that a reload follows it. Its rows are read from the gateway again. */
export interface DraftRun {
  session: string;
  /** Where what runs is in the script, in UTF-16 units, as the text is now. */
  from: number;
  to: number;
  statements: number;
  isOver: boolean;
}

export interface Draft {
  user: string;
  connection: string;
  id: string;
  /** Its number among the tabs, for those without a name. */
  number: number;
  name: string;
  script: string;
  reason: string;
  /** Values of placeholders. */
  values: Readonly<Record<string, string>>;
  run: DraftRun | null;
  /** When it was changed or selected last, in milliseconds. */
  usedAt: number;
}

export const MOST_TABS = 20; // of one connection
export const MOST_DRAFTS = 200; // of one user
export const LONGEST_SCRIPT = 4 * 1024 * 1024; // characters; the gateway accepts no longer body
export const LONGEST_TITLE = 60;

type Blank = Pick<Draft, "user" | "connection" | "id" | "number">;

export function blankDraft(about: Blank, now: number): Draft {
  return { ...about, name: "", script: "", reason: "", values: {}, run: null, usedAt: now };
}

/** Whether nothing would be lost with it. */
export function isBlank({ script, name, reason, run }: Draft): boolean {
  return script === "" && name === "" && reason === "" && run === null;
}

/** Return the number of the next tab. */
export function nextNumber(drafts: readonly Draft[]): number {
  return Math.max(0, ...drafts.map(({ number }) => number)) + 1;
}

/** Return the draft that was used last. */
export function lastUsed(drafts: readonly Draft[]): Draft | undefined {
  return drafts.reduce<Draft | undefined>(
    (last, draft) => (last && last.usedAt >= draft.usedAt ? last : draft),
    undefined,
  );
}

/** Return the tab that is selected once this one is closed: the next, or else the one before. */
export function neighbourOf(ids: readonly string[], id: string): string | undefined {
  const place = ids.indexOf(id);
  return ids[place + 1] ?? ids[place - 1];
}
