import { useState } from "react";
import { common } from "../messages/common";
import { Button } from "./button";
import styles from "./copy.module.css";

const SHOWN = 2_000; // milliseconds that the button says that it worked

/** A text to paste elsewhere, whole, with a button that copies it. */
export function Copy({ label, text }: { label: string; text: string }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setCopied(true);
    setTimeout(() => setCopied(false), SHOWN);
  };
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is for controls, this is a text with a button
    <div className={styles.copy} role="group" aria-label={label}>
      <pre>
        <code>{text}</code>
      </pre>
      <Button onPress={() => void copy()} aria-label={common.copyIt(label)}>
        {isCopied ? common.copied : common.copy}
      </Button>
    </div>
  );
}
