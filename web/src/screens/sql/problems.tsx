import { counted } from "../../messages";
import { Button } from "../../parts/button";
import type { ShownMark } from "./marks";
import { text } from "./messages";
import styles from "./sql.module.css";

const MOST = 10;

/** What is marked in the editor, as buttons that go there. */
export function Problems({ marks, onGo }: { marks: ShownMark[]; onGo: (mark: ShownMark) => void }) {
  if (marks.length === 0) return null;
  return (
    <section className={styles.problems} aria-label={text.problems}>
      {marks.slice(0, MOST).map((mark) => {
        const shown = text.line(mark.line, text.marks[mark.kind]);
        return (
          <Button
            key={`${mark.from} ${mark.kind} ${mark.message}`}
            kind="quiet"
            aria-label={text.markAt(mark.line, text.marks[mark.kind], mark.message)}
            onPress={() => onGo(mark)}
          >
            {shown}
          </Button>
        );
      })}
      {marks.length > MOST && <span className="secondary">{counted(text.moreProblems, marks.length - MOST)}</span>}
      <kbd>{text.nextProblem}</kbd>
    </section>
  );
}
