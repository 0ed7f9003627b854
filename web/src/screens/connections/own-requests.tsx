import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { FALLBACK_INTERVAL } from "../../api/changes";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { withdrawReview } from "../../api/scripts";
import { duration } from "../../engines/times";
import { language } from "../../messages";
import { common } from "../../messages/common";
import { Approvals } from "../../parts/approvals";
import { Chip } from "../../parts/chip";
import { Confirm } from "../../parts/confirm";
import { MarkedText } from "../../parts/marked-text";
import { Failure } from "../../parts/notice";
import { Time } from "../../parts/time";
import type { Connection } from "./connection-form";
import styles from "./connections.module.css";
import { text } from "./messages";

type Review = components["schemas"]["ReviewAnswer"];

const SHOWN = 5;

/** The user's newest requests for access to this connection, with their states, as they change. */
export function OwnRequests({ connection }: { connection: Connection }) {
  const query = useQuery({
    queryKey: ["reviews", "own", connection.name],
    refetchInterval: FALLBACK_INTERVAL,
    queryFn: () => {
      const query = { connection: connection.name, owner: "self", type: "jit", limit: SHOWN };
      return unwrap(api.GET("/api/reviews", { params: { query } }));
    },
  });
  if (query.error) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  if (!query.data || query.data.data.length === 0) return null;
  return (
    <section aria-label={text.ownRequests} className="stack">
      <h3>{text.ownRequests}</h3>
      <ul className={styles.requests}>
        {query.data.data.map((review) => (
          <li key={review.id}>
            <Request review={review} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function Request({ review }: { review: Review }) {
  const queries = useQueryClient();
  const isGiven = review.status === "APPROVED" && review.outcome === null;
  return (
    <div className="stack">
      <div className="row">
        <State review={review} />
        <Link to="/reviews/$id" params={{ id: review.id }}>
          {text.requestFor(duration(review.access_duration, language))}
        </Link>
        <Time at={review.created_at} />
        {isGiven && review.revoke_at && (
          <span>
            {text.accessUntil} <Time at={review.revoke_at} />
          </span>
        )}
        {review.status === "PENDING" && (
          <Confirm
            label={text.withdraw}
            title={text.withdrawTitle}
            action={() => withdrawReview(review.id)}
            onDone={() => void queries.invalidateQueries({ queryKey: ["reviews"] })}
          >
            {text.withdrawText}
          </Confirm>
        )}
      </div>
      {review.time_window && (
        <p className="secondary">
          <MarkedText text={common.timeWindow(review.time_window.configuration)} />
        </p>
      )}
      {review.status === "PENDING" && (
        <div className="secondary">
          {text.waitsFor}
          <Approvals demands={review.demands} />
        </div>
      )}
      {review.credential && (
        <p className="secondary">
          {text.requestCredential} <MarkedText text={review.credential.username} />
        </p>
      )}
      {(review.rejection_reason || review.withdrawal_reason) && (
        <p>
          <MarkedText text={review.rejection_reason || review.withdrawal_reason} />
        </p>
      )}
      {isGiven && <p>{text.given}</p>}
    </div>
  );
}

function State({ review: { status, outcome } }: { review: Review }) {
  if (status === "PENDING") return <Chip kind="held">{common.reviewStatuses[status]}</Chip>;
  if (status === "APPROVED" && outcome === null) return <Chip kind="ok">{text.accessGiven}</Chip>;
  if (status === "REJECTED" || status === "REVOKED") return <Chip kind="refused">{common.reviewStatuses[status]}</Chip>;
  return <Chip kind="off">{outcome === "ended" ? text.accessEnded : common.reviewStatuses[status]}</Chip>;
}
