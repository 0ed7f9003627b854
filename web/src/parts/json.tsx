import { valueText } from "../engines/changes";
import styles from "./json.module.css";
import { MarkedText } from "./marked-text";

/** A value of any kind as the record has it, whole. */
export function Json({ value }: { value: unknown }) {
  return (
    <pre className={styles.json}>
      <MarkedText text={valueText(value)} />
    </pre>
  );
}
