export const LEVELS = ["debug", "info", "warning", "error"] as const;
export type Level = (typeof LEVELS)[number];

/** What the log is narrowed to. */
export interface LogSearch {
  level?: Level;
  process?: string;
}
