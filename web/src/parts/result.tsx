import { memo, useMemo } from "react";
import type { MaskFinder } from "../engines/masks";
import { withoutRepeats } from "../engines/notices";
import { planOf } from "../engines/plan";
import type { ShownResult } from "../engines/results";
import { counted } from "../messages";
import { common } from "../messages/common";
import { Grid } from "./grid";
import { MarkedText } from "./marked-text";
import { PlanView } from "./plan-view";
import styles from "./result.module.css";

/**
 * The rows that a statement returned, with marks where they were masked, and what says how many there are. While more
 * come, a screen reader is not told each number. The plan of a query is shown as a tree or a text.
 */
export const Result = memo(function Result({ result }: { result: ShownResult }) {
  const { columns, rows, masks, incompleteFrom, isOpen } = result;
  const plan = useMemo(() => planOf(result), [result]);
  const label = common.result(result.number);
  const hasRows = columns.length > 0;
  return (
    <section aria-label={label} className="stack">
      {withoutRepeats(result.notices).map((notice, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: notices have no identity but their place
        <p key={index} className="secondary">
          {notice.severity}: <MarkedText text={notice.text} />
        </p>
      ))}
      {plan && <PlanView plan={plan} />}
      {hasRows && !plan && <Rows result={result} />}
      <Legend masks={masks} />
      {incompleteFrom !== null && <p className="secondary">{common.marksIncomplete(incompleteFrom)}</p>}
      <p role={isOpen ? undefined : "status"} className="secondary">
        {hasRows ? counted(isOpen ? common.rowsSoFar : common.rows, rows.length) : result.tag}
        {result.isTruncated && ` · ${common.cutByRecording}`}
        {result.isFailed && ` ${common.results.failedHere}`}
      </p>
    </section>
  );
});

function Rows({ result: { number, columns, fields, rows, masks, isOpen } }: { result: ShownResult }) {
  return (
    <Grid
      label={common.result(number)}
      columns={columns}
      rows={rows}
      fields={fields}
      masks={masks}
      isGrowing={isOpen}
    />
  );
}

function Legend({ masks }: { masks: MaskFinder }) {
  const columns = masks.columns();
  if (columns.length === 0) return null;
  return (
    <ul className={styles.legend} aria-label={common.maskedColumns}>
      {columns.map(([name, kinds]) => (
        <li key={name}>
          <MarkedText
            text={common.maskedColumn(
              name,
              kinds.map(({ rule, strategy, info_types }) => common.maskedBy(rule, strategy, info_types)),
            )}
          />
        </li>
      ))}
    </ul>
  );
}
