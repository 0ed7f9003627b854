import { Link } from "@tanstack/react-router";
import { useRef, useState } from "react";
import { NOT_LOGGED_IN, type TerminalEnd } from "../../api/terminal";
import { webAddress } from "../../engines/terminal/screen-text";
import { Button } from "../../parts/button";
import { MarkedText } from "../../parts/marked-text";
import { Notice } from "../../parts/notice";
import { Search } from "../../parts/search";
import { TerminalView } from "../../parts/terminal-view";
import { wordsOf } from "./ends";
import { LinkDialog } from "./link-dialog";
import { text } from "./messages";
import { PasteDialog } from "./paste-dialog";
import styles from "./terminal.module.css";
import { type Line, type LineState, type Request, useLine } from "./use-line";

interface Props {
  connection: string;
  number: number;
  request: Request;
  fontSize: number;
  state: LineState;
  onState: (state: LineState) => void;
  onTitle: (title: string) => void;
  onAgain: () => void;
  /** Go back to what was requested, if there was anything to fill in. */
  onChange: (() => void) | undefined;
  onClose: () => void;
}

/** One terminal, from its request to its end. What it showed stays until it is closed. */
export function LiveTerminal({ connection, number, request, fontSize, state, onState, onTitle, ...actions }: Props) {
  const tools = useRef<HTMLDivElement>(null);
  const [url, setUrl] = useState<URL | null>(null);
  const line = useLine(connection, request, {
    onState,
    onTitle,
    onLeave: () => tools.current?.querySelector<HTMLElement>("input, button")?.focus(),
    onFind: () => tools.current?.querySelector("input")?.focus(),
  });
  return (
    <div className={styles.live}>
      <div ref={tools} className={styles.tools}>
        <Finder line={line} />
        <span className={`secondary ${styles.keys}`}>{text.keys}</span>
        <Button onPress={actions.onClose}>{text.close}</Button>
      </div>
      {state.phase === "opening" && <p role="status">{text.opening}</p>}
      {state.phase === "waiting" && <Waiting review={state.review} onStop={line.stopWaiting} />}
      {state.end && <Ended end={state.end} onAgain={actions.onAgain} onChange={actions.onChange} />}
      <TerminalView
        label={text.screen(number)}
        onReady={line.attach}
        acceptsInput
        isFitted
        fontSize={fontSize}
        onLink={(address) => setUrl(webAddress(address))}
      />
      {url && <LinkDialog url={url} onClose={() => setUrl(null)} />}
      {line.paste && <PasteDialog paste={line.paste} onSend={line.sendPaste} onClose={line.dropPaste} />}
    </div>
  );
}

function Finder({ line }: { line: Line }) {
  const [words, setWords] = useState("");
  const [isFound, setFound] = useState(true);
  const find = (searched: string, isBackwards = false) => {
    setWords(searched);
    setFound(searched === "" || line.find(searched, isBackwards));
  };
  return (
    <>
      <Search label={text.find} value={words} onSearch={find} />
      {words && (
        <>
          <Button onPress={() => find(words, true)}>{text.previous}</Button>
          <Button onPress={() => find(words)}>{text.next}</Button>
        </>
      )}
      {!isFound && <span role="status">{text.notFound}</span>}
    </>
  );
}

function Waiting({ review, onStop }: { review: string; onStop: () => void }) {
  return (
    <Notice kind="held">
      <p>{text.waiting}</p>
      <div className="row">
        {review && (
          <Link to="/reviews/$id" params={{ id: review }} target="_blank">
            {text.openReview}
          </Link>
        )}
        <Button onPress={onStop}>{text.stopWaiting}</Button>
      </div>
    </Notice>
  );
}

function Ended({ end, onAgain, onChange }: { end: TerminalEnd } & Pick<Props, "onAgain" | "onChange">) {
  const { kind, what, detail } = wordsOf(end);
  return (
    <Notice kind={kind}>
      <p>
        <MarkedText text={what} />
      </p>
      {detail && (
        <p>
          <MarkedText text={detail} />
        </p>
      )}
      <div className="row">
        {end.code === NOT_LOGGED_IN ? (
          <Link to="/login" search={{ next: window.location.pathname }}>
            {text.logIn}
          </Link>
        ) : (
          <Button kind="primary" onPress={onAgain}>
            {text.openAgain}
          </Button>
        )}
        {onChange && <Button onPress={onChange}>{text.change}</Button>}
        <span>{text.newSession}</span>
      </div>
    </Notice>
  );
}
