import { useQueries, useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { userQuery } from "../../api/account";
import { openSessionsQuery, recentConnectionsQuery } from "../../api/home";
import { waitingReviewsQuery } from "../../api/waiting";
import { common } from "../../messages/common";
import { MarkedText } from "../../parts/marked-text";
import { Failure } from "../../parts/notice";
import { Page } from "../../parts/page";
import { Skeleton } from "../../parts/table";
import { Time } from "../../parts/time";
import { HomeConnections } from "./connections";
import styles from "./home.module.css";
import { Journey } from "./journey";
import { text } from "./messages";

/** What concerns the user now: their connections, requests to decide, and own sessions that are open. */
export function HomeScreen() {
  const { data: user } = useSuspenseQuery(userQuery);
  const email = user?.email ?? "";
  const parts = [recentConnectionsQuery(email), openSessionsQuery(email), waitingReviewsQuery];
  const isReading = useQueries({ queries: parts, combine: (read) => read.some(({ isPending }) => isPending) });
  return (
    <Page title={text.title(user?.name || email)}>
      {user?.is_admin && !isReading && <Journey email={email} />}
      <HomeConnections email={email} />
      <Waiting />
      <Running email={email} />
    </Page>
  );
}

function Waiting() {
  const reviews = useQuery(waitingReviewsQuery);
  return (
    <Section title={text.waiting} query={reviews} none={text.nothingWaits}>
      {reviews.data?.data.map((review) => (
        <li key={review.id}>
          <Link to="/reviews/$id" params={{ id: review.id }} className="mono">
            <MarkedText text={review.connection} />
          </Link>
          <span>
            <MarkedText text={text.requestedBy(review.owner.name || review.owner.email)} />
          </span>
          <Time at={review.created_at} />
        </li>
      ))}
    </Section>
  );
}

function Running({ email }: { email: string }) {
  const sessions = useQuery(openSessionsQuery(email));
  return (
    <Section title={text.running} query={sessions} none={text.nothingRuns}>
      {sessions.data?.data.map((session) => (
        <li key={session.id}>
          <Link to="/sessions/$id" params={{ id: session.id }} className="mono">
            <MarkedText text={session.connection} />
          </Link>
          <span>{common.verbs[session.verb]}</span>
          <Time at={session.start_date} />
        </li>
      ))}
    </Section>
  );
}

interface SectionProps {
  title: string;
  none: string;
  query: { isPending: boolean; error: Error | null; refetch: () => unknown; data?: { data: unknown[] } | undefined };
  children: ReactNode;
}

function Section({ title, none, query, children }: SectionProps) {
  return (
    <section className={styles.section} aria-label={title}>
      <h2>{title}</h2>
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton rows={2} />}
      {query.data?.data.length === 0 && <p className={styles.none}>{none}</p>}
      <ul>{children}</ul>
    </section>
  );
}
