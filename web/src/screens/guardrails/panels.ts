/** What is beside the form of a guardrail; the address says which. */
export const PANELS = ["try", "simulate"] as const;
export type Panel = (typeof PANELS)[number];
