import { withMarks } from "../engines/marks";
import styles from "./marked-text.module.css";

/** A text that another user or a target wrote: invisible characters are shown as marks, and its direction ends with it. */
export function MarkedText({ text }: { text: string }) {
  return (
    <bdi>
      {withMarks(text).map((piece, index) =>
        piece.mark ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: pieces have no identity but their place
          <span key={index} className={styles.mark}>
            {piece.text}
          </span>
        ) : (
          piece.text
        ),
      )}
    </bdi>
  );
}
