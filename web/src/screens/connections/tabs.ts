export const TABS = ["open", "access", "activity", "rules", "settings"] as const;
export type Tab = (typeof TABS)[number];
