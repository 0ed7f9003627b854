import type { ReactNode } from "react";
import styles from "./chip.module.css";

/** A state in words, with the colour that the state has on every screen. */
export function Chip({
  kind,
  children,
}: {
  kind: "ok" | "held" | "refused" | "masked" | "info" | "off";
  children: ReactNode;
}) {
  return <span className={`${styles.chip} ${styles[kind]}`}>{children}</span>;
}
