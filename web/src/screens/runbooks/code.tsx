import type { ReactNode } from "react";
import styles from "./runbooks.module.css";

interface Props {
  label: string;
  children: ReactNode;
  /** Whether it is about to be replaced. */
  isOld?: boolean;
}

/** A script or what a command printed; long ones scroll, also by keyboard. */
export function Code({ label, children, isOld = false }: Props) {
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is for controls, this is a text
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by keyboard
    <pre className={`${styles.script} ${isOld ? styles.old : ""}`} tabIndex={0} role="group" aria-label={label}>
      {children}
    </pre>
  );
}
