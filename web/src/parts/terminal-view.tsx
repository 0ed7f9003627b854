import "@xterm/xterm/css/xterm.css";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import { useEffect, useRef } from "react";
import { findLinks } from "../engines/terminal/screen-text";
import { keepToStylePolicy } from "../engines/terminal/style-policy";
import styles from "./terminal-view.module.css";

export const FONT_SIZE = 13;

interface Props {
  label: string;
  /** Called with the terminal once it is on the page. What it returns is called when the terminal goes. */
  onReady: (terminal: Terminal) => (() => void) | undefined;
  /** Whether what is typed goes anywhere. A replay must not be steered by what it shows. */
  acceptsInput?: boolean;
  /** Whether its size is that of its place, and not that of a recording. */
  isFitted?: boolean;
  fontSize?: number;
  /** Called for an address that the user chose in the terminal; without it, addresses are text. */
  onLink?: (url: string) => void;
}

/** A terminal, for sessions that one has, watches or replays. */
export function TerminalView({ label, onReady, acceptsInput, isFitted, fontSize = FONT_SIZE, onLink }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const opened = useRef<Terminal | null>(null);
  const handlers = useRef({ onReady, onLink });
  handlers.current = { onReady, onLink };
  const size = useRef(fontSize);
  size.current = fontSize;
  const opensLinks = onLink !== undefined;
  useEffect(() => {
    if (place.current === null) return;
    const terminal = openTerminal(place.current, label, acceptsInput ?? false, size.current);
    opened.current = terminal;
    if (opensLinks) offerLinks(terminal, (url) => handlers.current.onLink?.(url));
    const leavePlace = isFitted ? fitTo(place.current, terminal) : undefined;
    const leaveTheme = followTheme(place.current, terminal);
    void measureOnceLoaded(terminal, () => opened.current === terminal);
    const stop = handlers.current.onReady(terminal);
    return () => {
      stop?.();
      leavePlace?.();
      leaveTheme();
      terminal.dispose();
      opened.current = null;
    };
  }, [label, acceptsInput, isFitted, opensLinks]);
  useEffect(() => {
    if (opened.current !== null) opened.current.options.fontSize = fontSize;
  }, [fontSize]);
  return <div ref={place} className={isFitted ? styles.fitted : styles.terminal} />;
}

function openTerminal(place: HTMLElement, label: string, acceptsInput: boolean, fontSize: number): Terminal {
  const nonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? "";
  keepToStylePolicy(nonce);
  const style = getComputedStyle(document.documentElement);
  // Its cursor does not blink unless a program asks for that: it is an animation, which makes 60 frames a second, and
  // what comes for a key waits for the frame after it.
  const terminal = new Terminal({
    disableStdin: !acceptsInput,
    fontFamily: style.getPropertyValue("--mono"),
    fontSize,
    minimumContrastRatio: 4.5, // programs choose colours for a dark ground
    screenReaderMode: true,
    scrollback: acceptsInput ? 5_000 : 0,
    linkHandler: { activate: () => {} }, // links of a target are text
    theme: themeOf(place),
  });
  terminal.open(place);
  terminal.textarea?.setAttribute("aria-label", label);
  return terminal;
}

/** The terminal's colours are those of the place that it is in: it takes values, not names of tokens. */
function themeOf(place: HTMLElement) {
  const { backgroundColor, color } = getComputedStyle(place);
  return { background: backgroundColor, foreground: color, cursor: color };
}

/** The size of characters is measured once, which may be before their font is loaded: measure it again then. */
async function measureOnceLoaded(terminal: Terminal, isOpen: () => boolean): Promise<void> {
  const { fontFamily, fontSize } = terminal.options;
  if (!fontFamily || document.fonts.check(`${fontSize}px ${fontFamily}`)) return;
  await document.fonts.load(`${fontSize}px ${fontFamily}`).catch(() => {});
  if (!isOpen()) return;
  terminal.options.fontFamily = "monospace";
  terminal.options.fontFamily = fontFamily;
}

function followTheme(place: HTMLElement, terminal: Terminal): () => void {
  const query = window.matchMedia("(prefers-color-scheme: dark)");
  const update = () => {
    terminal.options.theme = themeOf(place);
  };
  query.addEventListener("change", update);
  return () => query.removeEventListener("change", update);
}

/** Give the terminal as many columns and rows as its place has room for, now and whenever one of both changes. */
function fitTo(place: HTMLElement, terminal: Terminal): () => void {
  const addon = new FitAddon();
  terminal.loadAddon(addon);
  const resize = () => {
    if (place.clientWidth > 0) addon.fit(); // in a tab that is not selected it has no size
  };
  resize();
  const observer = new ResizeObserver(resize);
  observer.observe(place);
  const screen = terminal.element?.querySelector(".xterm-screen");
  if (screen) observer.observe(screen); // its size changes with that of the font
  return () => observer.disconnect();
}

/** Make addresses of the web choosable, whether a program marks them as links or only writes them. */
function offerLinks(terminal: Terminal, onLink: (url: string) => void): void {
  terminal.options.linkHandler = { activate: (_, url) => onLink(url) };
  terminal.registerLinkProvider({
    provideLinks: (row, callback) => {
      const { text, cells } = readLine(terminal, row);
      const links = findLinks(text).flatMap(({ start, end, url }) => {
        const [first, last] = [cells[start], cells[end - 1]];
        if (first === undefined || last === undefined || first.y > row || last.y < row) return [];
        return [{ text: url, range: { start: first, end: last }, activate: () => onLink(url) }];
      });
      callback(links.length > 0 ? links : undefined);
    },
  });
}

const MOST_ROWS = 32; // that a line is read over

/** Return the line that a row belongs to, and the cell of each of its characters; columns and rows count from 1. */
function readLine(terminal: Terminal, row: number): { text: string; cells: { x: number; y: number }[] } {
  const buffer = terminal.buffer.active;
  let y = row;
  while (y > 1 && row - y < MOST_ROWS && buffer.getLine(y - 1)?.isWrapped) y -= 1;
  const cells: { x: number; y: number }[] = [];
  let text = "";
  for (const first = y; y - first < 2 * MOST_ROWS; y += 1) {
    const line = buffer.getLine(y - 1);
    if (line === undefined || (y > first && !line.isWrapped)) break;
    for (let column = 0; column < line.length; column += 1) {
      const cell = line.getCell(column);
      if (cell === undefined || cell.getWidth() === 0) continue; // the second half of a wide character
      const characters = cell.getChars() || " ";
      for (let index = 0; index < characters.length; index += 1) cells.push({ x: column + 1, y });
      text += characters;
    }
  }
  return { text, cells };
}
