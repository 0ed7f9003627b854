import { SearchAddon } from "@xterm/addon-search";
import type { Terminal } from "@xterm/xterm";
import { useCallback, useEffect, useRef, useState } from "react";
import { type OpenTerminal, openTerminal, type TerminalEnd, type TerminalRequest } from "../../api/terminal";
import { inspectPaste, type Paste } from "../../engines/terminal/paste";
import { cleanTitle } from "../../engines/terminal/screen-text";

export type Request = Omit<TerminalRequest, "columns" | "rows">;
export type Phase = "opening" | "waiting" | "open" | "ended";

export interface LineState {
  phase: Phase;
  /** The review that it waits for; empty if the gateway did not name it. */
  review: string;
  end: TerminalEnd | null;
}

export const OPENING: LineState = { phase: "opening", review: "", end: null };

interface Handlers {
  onState: (state: LineState) => void;
  onTitle: (title: string) => void;
  /** The keys that leave the terminal, and that search in it. */
  onLeave: () => void;
  onFind: () => void;
}

export interface Line {
  /** Give it the terminal that it is for. */
  attach: (terminal: Terminal) => () => void;
  /** A paste that the user must see first. */
  paste: Paste | null;
  sendPaste: () => void;
  dropPaste: () => void;
  stopWaiting: () => void;
  /** Find a text; return whether there is one. */
  find: (words: string, isBackwards?: boolean) => boolean;
}

const INTERRUPT = new Uint8Array([3]);

/** A terminal's line to the gateway, and what its user does with the terminal. */
export function useLine(connection: string, request: Request, handlers: Handlers): Line {
  const current = useRef({ connection, request, handlers });
  useEffect(() => {
    current.current = { connection, request, handlers };
  });
  const opened = useRef<{ terminal: Terminal; line: OpenTerminal; search: SearchAddon } | null>(null);
  const [paste, setPaste] = useState<Paste | null>(null);

  const attach = useCallback((terminal: Terminal) => {
    const { connection, request } = current.current;
    const told = () => current.current.handlers;
    const size = { columns: terminal.cols, rows: terminal.rows };
    const line = openTerminal(
      connection,
      { ...request, ...size },
      {
        onOpened: () => told().onState({ phase: "open", review: "", end: null }),
        onOutput: (bytes, processed) => terminal.write(bytes, processed),
        onWaits: (review) =>
          told().onState({ phase: review === null ? "open" : "waiting", review: review ?? "", end: null }),
        onEnd: (end) => {
          terminal.options.disableStdin = true;
          told().onState({ phase: "ended", review: "", end });
        },
      },
    );
    const search = new SearchAddon();
    terminal.loadAddon(search);
    opened.current = { terminal, line, search };
    const stopTyping = passInput(terminal, line);
    terminal.onTitleChange((title) => told().onTitle(cleanTitle(title)));
    listenToKeys(terminal, told);
    const stopPasting = guardPaste(terminal, setPaste);
    terminal.focus();
    return () => {
      opened.current = null;
      stopTyping();
      stopPasting();
      line.close();
    };
  }, []);

  return {
    attach,
    paste,
    sendPaste: () => {
      if (paste !== null) opened.current?.terminal.paste(paste.text);
      setPaste(null);
    },
    dropPaste: () => setPaste(null),
    stopWaiting: () => opened.current?.line.type(INTERRUPT),
    find: (words, isBackwards = false) => {
      const search = opened.current?.search;
      if (search === undefined) return false;
      return isBackwards ? search.findPrevious(words) : search.findNext(words);
    },
  };
}

function passInput(terminal: Terminal, line: OpenTerminal): () => void {
  const encoder = new TextEncoder();
  const listeners = [
    terminal.onData((text) => line.type(encoder.encode(text))),
    terminal.onBinary((text) => line.type(Uint8Array.from(text, (character) => character.charCodeAt(0)))),
    terminal.onResize(({ cols, rows }) => line.resize({ columns: cols, rows })),
  ];
  return () => {
    for (const listener of listeners) listener.dispose();
  };
}

/** Keys that are for the page: the terminal takes all others, also Tab. */
function listenToKeys(terminal: Terminal, handlers: () => Handlers): void {
  terminal.attachCustomKeyEventHandler((event) => {
    if (!event.ctrlKey || event.altKey || event.metaKey) return true;
    const key = `${event.shiftKey ? "Shift+" : ""}${event.key.toLowerCase()}`;
    const actions: Record<string, () => void> = {
      f6: () => handlers().onLeave(),
      "Shift+f": () => handlers().onFind(),
      "Shift+c": () => {
        if (terminal.hasSelection()) void navigator.clipboard.writeText(terminal.getSelection());
      },
    };
    const action = Object.hasOwn(actions, key) ? actions[key] : undefined;
    if (action === undefined) return true;
    event.preventDefault();
    event.stopPropagation();
    if (event.type === "keydown") action();
    return false;
  });
}

/** Take each paste before the terminal does: what the user has to see first is only sent later. */
function guardPaste(terminal: Terminal, ask: (paste: Paste) => void): () => void {
  const listen = (event: Event) => {
    event.preventDefault();
    event.stopImmediatePropagation();
    const paste = inspectPaste((event as ClipboardEvent).clipboardData?.getData("text/plain") ?? "");
    if (paste.isSuspicious) ask(paste);
    else if (paste.text) terminal.paste(paste.text);
  };
  terminal.element?.addEventListener("paste", listen, { capture: true });
  return () => terminal.element?.removeEventListener("paste", listen, { capture: true });
}
