import { type ReactNode, useEffect, useRef } from "react";
import { markedWords } from "../engines/marks";
import { common } from "../messages/common";
import { MarkedText } from "./marked-text";
import styles from "./page.module.css";

interface Props {
  title: string;
  children: ReactNode;
  aside?: ReactNode;
}

/** A page of the shell. Its title becomes that of the tab, and screen readers begin there after each change of page. */
export function Page({ title, children, aside }: Props) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${markedWords(title)} · ${common.product}`;
    heading.current?.focus({ preventScroll: true });
  }, [title]);
  return (
    <div className={styles.page}>
      <header className={styles.header}>
        <h1 ref={heading} tabIndex={-1}>
          <MarkedText text={title} />
        </h1>
        {aside}
      </header>
      {children}
    </div>
  );
}
