import type { ReactNode } from "react";
import styles from "./views.module.css";

/** Links to the views of a list, each with an address of its own. */
export function Views({ label, children }: { label: string; children: ReactNode }) {
  return (
    <nav className={styles.views} aria-label={label}>
      {children}
    </nav>
  );
}
