import { common } from "../../messages/common";
import { Chip } from "../../parts/chip";
import { MarkedText } from "../../parts/marked-text";
import type { Connection } from "./connection-form";
import styles from "./connections.module.css";
import { text } from "./messages";

export function Tags({ tags }: { tags: Record<string, string> }) {
  if (Object.keys(tags).length === 0) return null;
  return (
    <ul className={styles.tags}>
      {Object.entries(tags).map(([key, value]) => (
        <li key={key}>
          <Chip kind="off">
            <MarkedText text={value ? `${key}: ${value}` : key} />
          </Chip>
        </li>
      ))}
    </ul>
  );
}

export function Status({ connection }: { connection: Connection }) {
  return (
    <span className={styles.tags}>
      <Chip kind={connection.status === "online" ? "ok" : "off"}>
        {connection.status === "online" ? common.online : common.offline}
      </Chip>
      {connection.target_status === "failed" && <Chip kind="refused">{text.targetFailed}</Chip>}
      {connection.redact_enabled && <Chip kind="masked">{text.masked}</Chip>}
      {connection.reviewers.length > 0 && <Chip kind="held">{text.reviewed}</Chip>}
    </span>
  );
}
