import { useEffect, useState } from "react";
import { type Filling, type Rendered, renderRunbook } from "../../api/runbooks";
import { useSettled } from "../../parts/use-settled";

const PAUSE = 350; // milliseconds without a change after which the runbook is filled in

export interface DryRun {
  rendered: Rendered | null;
  error: Error | null;
  /** Whether values have changed since. */
  isOld: boolean;
}

interface Answer {
  rendered: Rendered | null;
  error: Error | null;
  of: string | null;
}

/**
 * Fill in a runbook while its form is edited. Its values can be secrets, so they are not kept in the cache of queries.
 */
export function useDryRun(filling: Filling | null): DryRun {
  const [answer, setAnswer] = useState<Answer>({ rendered: null, error: null, of: null });
  const wanted = filling && JSON.stringify(filling);
  const settled = useSettled(wanted, PAUSE);
  useEffect(() => {
    if (settled === null) return;
    const abort = new AbortController();
    renderRunbook(JSON.parse(settled) as Filling, abort.signal).then(
      (rendered) => !abort.signal.aborted && setAnswer({ rendered, error: null, of: settled }),
      (error: Error) => !abort.signal.aborted && setAnswer({ rendered: null, error, of: settled }),
    );
    return () => abort.abort();
  }, [settled]);
  return { rendered: answer.rendered, error: answer.error, isOld: answer.of !== wanted };
}
