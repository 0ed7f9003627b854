import styles from "./agents.module.css";
import type { Agent } from "./agents-data";
import { text } from "./messages";

/** Whether an agent is there: a dot, and the word for it. */
export function AgentStatus({ status }: { status: Agent["status"] }) {
  return (
    <span className={`${styles.status} ${status === "CONNECTED" ? styles.online : styles.offline}`}>
      {text.statuses[status]}
    </span>
  );
}
