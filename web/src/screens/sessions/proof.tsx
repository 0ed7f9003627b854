import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { api, unwrap } from "../../api/client";
import type { components } from "../../api/schema";
import { counted } from "../../messages";
import { Button } from "../../parts/button";
import { Facts } from "../../parts/facts";
import { Failure, Notice } from "../../parts/notice";
import { Skeleton } from "../../parts/table";
import { Time } from "../../parts/time";
import { text } from "./messages";

type Proof = components["schemas"]["SessionProofAnswer"];

const NOTICES = {
  open: "info",
  pending: "info",
  signed: "ok",
  verified: "ok",
  changed: "refused",
  purged: "held",
} as const;

/** Whether the record of the session is unchanged, and what proves it. */
export function ProofTab({ id }: { id: string }) {
  const queries = useQueryClient();
  const key = ["proof", id];
  const params = { path: { session_id: id } };
  const query = useQuery({
    queryKey: key,
    queryFn: () => unwrap(api.GET("/api/sessions/{session_id}/proof", { params })),
  });
  const verify = useMutation({
    mutationFn: () => unwrap(api.POST("/api/sessions/{session_id}/proof", { params })),
    onSuccess: (proof) => queries.setQueryData(key, proof),
  });
  if (query.error) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  if (!query.data) return <Skeleton rows={4} />;
  const proof = query.data;
  return (
    <section aria-label={text.session.tab.proof} className="stack">
      <Notice kind={NOTICES[proof.state]}>
        <p>{text.proof.states[proof.state]}</p>
        {proof.reason && <p>{proof.reason}</p>}
      </Notice>
      {proof.findings.map((finding) => (
        <Notice key={`${finding.what} ${finding.message}`} kind="refused">
          <p>{finding.message}</p>
        </Notice>
      ))}
      <Facts facts={factsOf(proof)} />
      <div className="row">
        <Button onPress={() => verify.mutate()} isDisabled={verify.isPending}>
          {verify.isPending ? text.proof.verifying : text.proof.verify}
        </Button>
        <span className="secondary">{text.proof.hint}</span>
      </div>
      {verify.error && <Failure error={verify.error} />}
    </section>
  );
}

function factsOf({ closed, checkpoint, segment_count, size, verification }: Proof): [string, ReactNode][] {
  const facts: [string, ReactNode][] = [
    [text.proof.segments, `${counted(text.proof.count, segment_count)}, ${text.proof.bytes(size)}`],
  ];
  if (closed)
    facts.push([
      text.proof.ledger,
      <span key="ledger">
        {text.proof.entry(closed.number)} <code>{closed.hash}</code>
      </span>,
    ]);
  if (checkpoint) {
    facts.push([
      text.proof.checkpoint,
      <span key="checkpoint">
        <Time at={checkpoint.at} /> <code>{checkpoint.hash}</code>
      </span>,
    ]);
    const reached = checkpoint.anchors.filter(({ reached_at }) => reached_at !== null).map(({ anchor }) => anchor);
    facts.push([text.proof.anchors, reached.length > 0 ? reached.join(", ") : text.proof.noAnchor]);
  }
  if (verification)
    facts.push([
      text.proof.verified,
      <span key="verified">
        <Time at={verification.at} /> · {verification.is_good ? text.proof.good : text.proof.bad}
      </span>,
    ]);
  return facts;
}
