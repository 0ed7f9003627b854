import { useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { Failure, Notice } from "../../parts/notice";
import { Skeleton } from "../../parts/table";
import { AskForAccess, NoReview } from "./ask-for-access";
import type { Connection } from "./connection-form";
import { text } from "./messages";

type Access = components["schemas"]["ConnectionAccessAnswer"];
type Needed = Access["reviews"][number];

/** What the user may do with the connection, and why; and a way to ask for access. */
export function AccessTab({ connection }: { connection: Connection }) {
  const query = useQuery({
    queryKey: ["access", connection.name],
    queryFn: () =>
      unwrap(api.GET("/api/connections/{nameOrID}/access", { params: { path: { nameOrID: connection.name } } })),
  });
  if (query.error) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  if (!query.data) return <Skeleton rows={3} />;
  const { allowed, reason, reviews } = query.data;
  const connecting = reviews.find(({ verb }) => verb === "connect");
  return (
    <div className="stack">
      <Notice kind={allowed ? "ok" : "held"}>
        <p>{reason}</p>
      </Notice>
      {reviews.map((needed) => (
        <ReviewNeeded key={needed.verb} needed={needed} />
      ))}
      {allowed &&
        connection.access_mode_connect === "enabled" &&
        (connecting?.needed ? (
          <AskForAccess connection={connection} longest={connecting.access_max_duration} />
        ) : (
          <NoReview connection={connection} />
        ))}
    </div>
  );
}

function ReviewNeeded({ needed }: { needed: Needed }) {
  return (
    <section aria-label={text.verb[needed.verb]} className="stack">
      <h2>{text.verb[needed.verb]}</h2>
      <p>{needed.reason}</p>
    </section>
  );
}
