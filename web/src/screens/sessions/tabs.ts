export const TABS = ["replay", "watch", "statements", "results", "files", "proof", "record"] as const;
export type Tab = (typeof TABS)[number];
