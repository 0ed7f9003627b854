import type { components } from "../../api/schema";
import { Chip } from "../../parts/chip";
import { text } from "./messages";

type Entry = Pick<components["schemas"]["AuditEntryAnswer"], "outcome" | "http_status">;

export function Outcome({ entry: { outcome, http_status } }: { entry: Entry }) {
  const isSuccess = outcome === "success";
  return (
    <Chip kind={isSuccess ? "ok" : "refused"}>
      {isSuccess ? text.outcomes.success : text.outcomes.failure}
      {http_status > 0 && ` ${http_status}`}
    </Chip>
  );
}
