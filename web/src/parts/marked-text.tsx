import { Fragment } from "react";
import { breakable } from "../engines/breaks";
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
          // biome-ignore lint/suspicious/noArrayIndexKey: pieces have no identity but their place
          <Breakable key={index} text={piece.text} />
        ),
      )}
    </bdi>
  );
}

function Breakable({ text }: { text: string }) {
  const pieces = breakable(text);
  if (pieces.length === 1) return text;
  return pieces.map((piece, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: pieces have no identity but their place
    <Fragment key={index}>
      {index > 0 && <wbr />}
      {piece}
    </Fragment>
  ));
}
