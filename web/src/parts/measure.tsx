import { formatNumber } from "../engines/numbers";
import { language } from "../messages";
import styles from "./measure.module.css";

interface Props {
  value: number;
  /** The largest value of the column, which fills its width. */
  largest: number;
  kind?: "accent" | "refused" | "masked" | "held";
}

/** A number with a bar of its size, for columns that are compared. */
export function Measure({ value, largest, kind = "accent" }: Props) {
  const width = largest > 0 ? `${(100 * value) / largest}%` : "0";
  return (
    <span className={styles.measure}>
      <span className={styles.number}>{formatNumber(value, language)}</span>
      <span className={styles.track} aria-hidden="true">
        <span className={`${styles.bar} ${styles[kind]}`} style={{ width }} />
      </span>
    </span>
  );
}
