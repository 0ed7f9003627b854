/** What the list of reviews can show; the address says which. */
export const VIEWS = ["waiting", "mine", "all"] as const;
export type View = (typeof VIEWS)[number];
