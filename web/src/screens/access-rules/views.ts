/** What the page of access rules shows; the address says which. */
export const VIEWS = ["rules", "groups", "why"] as const;
export type View = (typeof VIEWS)[number];
