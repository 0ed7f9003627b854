import type { ReactNode } from "react";
import styles from "./stats.module.css";

/** Sums of a page in large figures, side by side. */
export function Stats({ label, stats }: { label: string; stats: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className={styles.stats} aria-label={label}>
      {stats.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
