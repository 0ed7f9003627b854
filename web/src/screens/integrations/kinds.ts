import type { components } from "../../api/schema";

export type SinkKind = components["schemas"]["SinkKind"];
export type EventKind = components["schemas"]["EventKind"];

export const SINK_KINDS = ["webhook", "syslog", "otlp", "slack", "teams", "email", "apprise"] as const;
export const DELIVERY_STATES = ["waiting", "delivered", "given_up"] as const;
export const ISSUE_STATES = ["wanted", "withdrawn", "made", "closing", "closed", "given_up"] as const;

/** Kinds that people read: they get reviews, and can be limited to some of them. */
export const CHATS: readonly SinkKind[] = ["slack", "teams", "email", "apprise"];

/** What a kind needs besides an address. Keys are secrets, and never shown. */
export const NEEDS: Record<SinkKind, { options: readonly string[]; keys: readonly string[]; address: boolean }> = {
  webhook: { options: [], keys: [], address: true },
  syslog: { options: [], keys: [], address: true },
  otlp: { options: [], keys: [], address: true },
  slack: { options: ["channel", "app_id", "team_id"], keys: ["bot_token", "signing_secret"], address: false },
  teams: { options: [], keys: ["url"], address: false },
  email: { options: ["from", "to"], keys: ["username", "password"], address: true },
  apprise: { options: [], keys: ["url"], address: false },
};

export const EVENTS: readonly EventKind[] = [
  ...(["session.open", "session.close", "session.kill", "guardrail.violation"] as const),
  ...(["review.created", "review.voiced", "review.approved", "review.rejected", "review.revoked"] as const),
  ...(["review.expired", "review.withdrawn", "review.started", "review.executed"] as const),
  ...(["schedule.failed", "audit.entry"] as const),
];
