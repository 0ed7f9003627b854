import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { type Execution, heldStatementQuery, type ScriptError, withdrawReview } from "../api/scripts";
import { common } from "../messages/common";
import { runs } from "../messages/runs";
import { Button } from "./button";
import { MarkedText } from "./marked-text";
import { Failure, Notice } from "./notice";
import { Results } from "./results";
import type { Run } from "./use-run";

interface Props {
  run: Run & { proceed: (session: string) => void };
  /** How many statements the script has, if that is known. */
  statements?: number;
}

/** What came of a run: rows, an error where it happened, or whom it waits for. The error is seen beside each result. */
export function RunOutcome({ run: { phase, state, results, progress, error, proceed }, statements = 0 }: Props) {
  return (
    <>
      {error && <Failure error={error} />}
      {phase === "starting" && <p role="status">{runs.starting}</p>}
      {phase === "running" && state && <Running session={state.session_id} />}
      {phase === "running" && progress && (statements === 0 || progress.done < statements) && (
        <p className="secondary">{runs.progress(progress.done, statements, progress.rows)}</p>
      )}
      {phase === "waiting" && state?.review && <Held review={state.review} what={runs.held} next={runs.continues} />}
      {phase === "approved" && state && <Approved onProceed={() => proceed(state.session_id)} />}
      {phase === "refused" && state?.review && <NotRun review={state.review} />}
      {state?.error && <Refusal error={state.error} />}
      {results && <Results results={results} statements={statements} />}
    </>
  );
}

type Review = NonNullable<Execution["review"]>;

/** A script that runs: one of its statements can be held until somebody approves it. */
function Running({ session }: { session: string }) {
  const held = useQuery(heldStatementQuery(session)).data;
  if (!held) return <p role="status">{runs.running}</p>;
  return <Held review={held} what={runs.statementHeld} next={runs.statementContinues} />;
}

interface HeldProps {
  review: Review;
  what: (groups: string[]) => string;
  next: string;
}

function Held({ review, what, next }: HeldProps) {
  const withdraw = useMutation({ mutationFn: () => withdrawReview(review.id) });
  return (
    <Notice kind="held">
      <p>
        <MarkedText text={what(review.review_groups_data.map(({ group }) => group).filter(Boolean))} />
      </p>
      <p>{next}</p>
      <div className="row">
        <Link to="/reviews/$id" params={{ id: review.id }} target="_blank">
          {runs.openReview}
        </Link>
        <Button onPress={() => withdraw.mutate()} isDisabled={withdraw.isPending}>
          {runs.withdraw}
        </Button>
      </div>
      {withdraw.error && <Failure error={withdraw.error} />}
    </Notice>
  );
}

function Approved({ onProceed }: { onProceed: () => void }) {
  return (
    <Notice kind="ok">
      <p>{runs.approved}</p>
      <Button kind="primary" onPress={onProceed}>
        {runs.proceed}
      </Button>
    </Notice>
  );
}

function NotRun({ review }: { review: Review }) {
  return (
    <Notice kind="refused">
      <p>{runs.notApproved(common.reviewStatuses[review.status])}</p>
      {review.rejection_reason && (
        <p>
          <MarkedText text={review.rejection_reason} />
        </p>
      )}
    </Notice>
  );
}

function Refusal({ error }: { error: ScriptError }) {
  return (
    <Notice kind="refused">
      <p>
        <MarkedText text={error.text} />
        {error.code && <span className="secondary mono"> {error.code}</span>}
      </p>
      {error.line_text && (
        <p className="mono">
          {error.line}: <MarkedText text={error.line_text} />
        </p>
      )}
      {error.detail && (
        <p>
          <MarkedText text={error.detail} />
        </p>
      )}
      {error.hint && (
        <p>
          <MarkedText text={error.hint} />
        </p>
      )}
    </Notice>
  );
}
