import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { Label, TextArea, TextField } from "react-aria-components";
import { FALLBACK_INTERVAL } from "../../api/changes";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { duration } from "../../engines/times";
import { language } from "../../messages";
import { common } from "../../messages/common";
import { Approvals } from "../../parts/approvals";
import { Button } from "../../parts/button";
import { Facts } from "../../parts/facts";
import { MarkedText } from "../../parts/marked-text";
import { Failure, Notice } from "../../parts/notice";
import { Page } from "../../parts/page";
import { Skeleton } from "../../parts/table";
import { Time } from "../../parts/time";
import { text } from "./messages";
import { RequestKind, ReviewClient } from "./review-client";
import { ReviewState } from "./review-state";
import styles from "./reviews.module.css";

type Review = components["schemas"]["ReviewAnswer"];
type Decision = Review["allowed_decisions"][number];

const BODIES: Record<Decision, { status: string; force_review: boolean }> = {
  approve: { status: "APPROVED", force_review: false },
  force: { status: "APPROVED", force_review: true },
  reject: { status: "REJECTED", force_review: false },
  revoke: { status: "REVOKED", force_review: false },
};

/** One request in full: who asks for what and why, all that would run, who must agree, and the decision. */
export function ReviewScreen() {
  const { id } = useParams({ from: "/shell/reviews/$id" });
  const query = useQuery({
    queryKey: ["review", id],
    refetchInterval: FALLBACK_INTERVAL,
    queryFn: () => unwrap(api.GET("/api/reviews/{id}", { params: { path: { id } } })),
  });
  const review = query.data;
  return (
    <Page title={common.review} aside={<Link to="/reviews">{text.review.back}</Link>}>
      {query.error && <Failure error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <Skeleton />}
      {review && (
        <div className={styles.review}>
          <Facts facts={factsOf(review)} />
          <Content title={text.review.script} content={review.script} />
          <Content title={text.review.input} content={review.input} />
          <Demands review={review} />
          <Votes review={review} />
          {review.allowed_decisions.length > 0 && <DecisionForm key={review.status} review={review} />}
        </div>
      )}
    </Page>
  );
}

function factsOf(review: Review): [string, ReactNode][] {
  const facts: [string, ReactNode][] = [
    [text.list.state, <ReviewState key="state" review={review} />],
    [text.list.requester, <MarkedText key="owner" text={personOf(review.owner)} />],
    [
      text.list.connection,
      <code key="connection">
        <MarkedText text={review.connection} />
      </code>,
    ],
    [text.list.kind, <RequestKind key="kind" review={review} />],
    [text.list.client, <ReviewClient key="client" review={review} isFull />],
    [text.review.reason, review.reason ? <MarkedText key="reason" text={review.reason} /> : text.review.noReason],
    [text.list.requested, <Time key="at" at={review.created_at} />],
  ];
  if (review.access_duration) facts.push([text.review.duration, duration(review.access_duration, language)]);
  if (review.time_window) {
    const hours = common.timeWindow(review.time_window.configuration);
    facts.push([text.review.hours, <MarkedText key="hours" text={hours} />]);
  }
  if (!review.outcome) facts.push([text.review.deadline, <Time key="deadline" at={review.expires_at} />]);
  if (typeof review.estimate?.said === "string")
    facts.push([text.review.rows, <MarkedText key="rows" text={review.estimate.said} />]);
  if (review.rejection_reason)
    facts.push([text.review.rejected, <MarkedText key="rejected" text={review.rejection_reason} />]);
  if (review.withdrawal_reason)
    facts.push([text.review.withdrawn, <MarkedText key="withdrawn" text={review.withdrawal_reason} />]);
  return facts;
}

/** What would run, whole: wrapped and never cut, with marks for characters that would not be seen. */
function Content({ title, content }: { title: string; content: string | null }) {
  if (!content) return null;
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      <pre className={styles.content}>
        <MarkedText text={content} />
      </pre>
    </section>
  );
}

function Demands({ review }: { review: Review }) {
  return (
    <section aria-label={text.review.demands}>
      <h2>{text.review.demands}</h2>
      <Approvals demands={review.demands} />
    </section>
  );
}

function Votes({ review }: { review: Review }) {
  if (review.voices.length === 0) return null;
  return (
    <section aria-label={text.review.votes}>
      <h2>{text.review.votes}</h2>
      <ul>
        {review.voices.map((vote) => (
          <li key={vote.review_date + vote.reviewed_by.email}>
            <MarkedText text={personOf(vote.reviewed_by)} /> · {text.review.choices[vote.status]}
            {vote.forced_review && ` (${text.review.alone})`} · <Time at={vote.review_date} />
            {vote.comment && (
              <p>
                <MarkedText text={vote.comment} />
              </p>
            )}
          </li>
        ))}
      </ul>
    </section>
  );
}

function DecisionForm({ review }: { review: Review }) {
  const queries = useQueryClient();
  const [comment, setComment] = useState("");
  const decide = useMutation({
    mutationFn: (decision: Decision) => {
      const body = { ...BODIES[decision], comment, rejection_reason: "" };
      return unwrap(api.PUT("/api/reviews/{id}", { params: { path: { id: review.id } }, body }));
    },
    onSuccess: (answer) => queries.setQueryData(["review", review.id], { ...review, ...answer }),
    onSettled: () => queries.invalidateQueries({ queryKey: ["review", review.id] }),
  });
  return (
    <form className={styles.decision} onSubmit={(event) => event.preventDefault()}>
      <TextField value={comment} onChange={setComment} maxLength={1000}>
        <Label>{text.review.comment}</Label>
        <TextArea rows={3} />
      </TextField>
      {decide.error && <Failure error={decide.error} />}
      {decide.isSuccess && (
        <Notice kind="ok">
          <p>{text.review.decided}</p>
        </Notice>
      )}
      <div className={styles.buttons}>
        {review.allowed_decisions.map((decision) => (
          <Button
            key={decision}
            kind={decision === "approve" ? "primary" : "plain"}
            isDisabled={decide.isPending}
            onPress={() => decide.mutate(decision)}
          >
            {text.review.decisions[decision]}
          </Button>
        ))}
      </div>
    </form>
  );
}

function personOf(person: { name: string; email: string }): string {
  return person.name && person.name !== person.email ? `${person.name} (${person.email})` : person.email;
}
