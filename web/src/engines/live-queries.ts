// Which of the data on a page an event of the gateway is about. Data is named by the first words of its query's key.

export const SUBJECTS = ["review", "session", "agent", "connection", "login"] as const;
export type Subject = (typeof SUBJECTS)[number];

/** What has changed; `everything` where changes may have been missed. Without an identifier, any of its kind. */
export interface Change {
  subject: Subject | "everything";
  id: string | null;
  /** The session of a review. */
  session_id: string | null;
}

/** Lists, which any event about their subject can change. */
const LISTS: Readonly<Record<Subject, readonly string[]>> = {
  review: ["reviews", "sessions", "access", "connections"], // a session that waits has no event of its own
  session: ["sessions", "connections"],
  agent: ["/api/agents", "connections", "connection", "choices"],
  connection: ["connections", "connection", "access", "choices", "/api/connections"],
  login: ["user", "logins"],
};

/** What is about one review or one session: the identifier is the second word of the key. */
const SINGLES: Partial<Record<Subject, readonly string[]>> = {
  review: ["review"],
  session: ["session", "timeline", "holds", "hooks"],
};

/** Return the event that a message of the gateway has. Whatever cannot be read is about everything. */
export function changeOf(subject: Subject, message: string): Change {
  try {
    const { id, change, session_id } = JSON.parse(message) as Record<string, unknown>;
    // Another role or group: the user can see other things than before.
    if (subject === "login" && change === "changed") return everything;
    return { subject, id: textOf(id), session_id: textOf(session_id) };
  } catch {
    return everything;
  }
}

export const everything: Change = { subject: "everything", id: null, session_id: null };

/** Return whether the data with this key has to be read again after this change. */
export function isAbout({ subject, id, session_id }: Change, key: readonly unknown[]): boolean {
  if (subject === "everything") return true;
  const [root, second] = key;
  if (typeof root !== "string") return false;
  if (LISTS[subject].includes(root)) return true;
  if (SINGLES[subject]?.includes(root)) return id === null || second === id;
  return session_id !== null && second === session_id && (SINGLES.session?.includes(root) ?? false);
}

function textOf(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
