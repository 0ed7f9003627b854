import type { components } from "../../api/schema";
import { Chip } from "../../parts/chip";
import { text } from "./messages";

type Session = Pick<components["schemas"]["SessionAnswer"], "status" | "outcome">;

/** Whether a session runs, or what came of it. */
export function SessionState({ session }: { session: Session }) {
  if (session.status !== "done") return <Chip kind="info">{text.list.statuses[session.status]}</Chip>;
  if (!session.outcome) return <Chip kind="off">{text.list.statuses.done}</Chip>;
  return <Chip kind={session.outcome === "succeeded" ? "ok" : "refused"}>{text.list.outcomes[session.outcome]}</Chip>;
}
