import { LONGEST_PASTE, type Paste } from "../../engines/terminal/paste";
import { counted } from "../../messages";
import { common } from "../../messages/common";
import { Button } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { MarkedText } from "../../parts/marked-text";
import { text } from "./messages";
import styles from "./terminal.module.css";

const MOST = 20_000; // characters that are shown

interface Props {
  paste: Paste;
  onSend: () => void;
  onClose: () => void;
}

/** Show what a paste would type, before it does. */
export function PasteDialog({ paste, onSend, onClose }: Props) {
  const { text: pasted, removed, lines, isTooLong } = paste;
  return (
    <Dialog title={text.paste.title} isOpen onClose={onClose}>
      <p>{isTooLong ? text.paste.tooLong(LONGEST_PASTE) : counted(text.paste.lines, lines)}</p>
      {removed > 0 && <p>{counted(text.paste.removed, removed)}</p>}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard must be able to scroll a long text */}
      <section className={`mono words ${styles.shown}`} aria-label={text.paste.shown} tabIndex={0}>
        <MarkedText text={pasted.slice(0, MOST)} />
      </section>
      {pasted.length > MOST && <p>{text.paste.cut(MOST, pasted.length)}</p>}
      <div className="row">
        {!isTooLong && (
          <Button kind="primary" onPress={onSend}>
            {text.paste.send}
          </Button>
        )}
        <Button onPress={onClose}>{common.cancel}</Button>
      </div>
    </Dialog>
  );
}
