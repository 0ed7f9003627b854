import { useMemo } from "react";
import type { StatementResult } from "../api/scripts";
import { MaskFinder } from "../engines/masks";
import { withoutRepeats } from "../engines/notices";
import { counted } from "../messages";
import { common } from "../messages/common";
import { Grid } from "./grid";
import { MarkedText } from "./marked-text";
import styles from "./result.module.css";

/** The rows that a statement returned, with marks where they were masked, and what says how many there are. */
export function Result({ number, result }: { number: number; result: StatementResult }) {
  const label = common.result(number);
  const masks = useMemo(() => new MaskFinder(result.masked, result.fields ?? []), [result]);
  const hasRows = result.columns.length > 0;
  const incomplete = result.masked?.incomplete_from ?? null;
  return (
    <section aria-label={label} className="stack">
      {withoutRepeats(result.notices).map((notice, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: notices have no identity but their place
        <p key={index} className="secondary">
          {notice.severity}: <MarkedText text={notice.text} />
        </p>
      ))}
      {hasRows && (
        <Grid
          label={label}
          columns={result.columns}
          rows={result.rows}
          fields={result.fields ?? []}
          maskAt={(row, column) => masks.at(row, column)}
        />
      )}
      <Legend masks={masks} />
      {incomplete !== null && <p className="secondary">{common.marksIncomplete(incomplete)}</p>}
      <p role="status" className="secondary">
        {hasRows ? counted(common.rows, result.rows.length) : result.tag}
        {result.truncated && ` · ${common.cutByRecording}`}
      </p>
    </section>
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
