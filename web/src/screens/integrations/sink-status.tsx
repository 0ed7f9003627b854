import type { components } from "../../api/schema";
import { Chip } from "../../parts/chip";
import { text } from "./messages";

type Sink = Pick<components["schemas"]["SinkAnswer"], "status" | "failing_since">;

export function SinkStatus({ sink }: { sink: Sink }) {
  if (sink.status === "gone") return <Chip kind="refused">{text.sinks.statuses.gone}</Chip>;
  if (sink.status === "paused") return <Chip kind="off">{text.sinks.statuses.paused}</Chip>;
  if (sink.failing_since) return <Chip kind="refused">{text.sinks.failing}</Chip>;
  return <Chip kind="ok">{text.sinks.statuses.active}</Chip>;
}
