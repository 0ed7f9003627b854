// A terminal that nobody sees, made of the same parts as the one on the page.

import "./worker-globals";
import { SerializeAddon } from "@xterm/addon-serialize";
import { Terminal } from "@xterm/headless";
import { ESC } from "../terminal/screen-filter";
import type { HiddenTerminal } from "./key-frames";
import { FIRST_SIZE } from "./recording";

/** Return a terminal of the size that a replay begins with, and how key frames are made of it. */
export function headlessTerminal(): { terminal: Terminal; hidden: HiddenTerminal } {
  const terminal = new Terminal({
    cols: FIRST_SIZE.columns,
    rows: FIRST_SIZE.rows,
    scrollback: 0,
    allowProposedApi: true,
  });
  const serializer = new SerializeAddon();
  terminal.loadAddon(serializer as unknown as Parameters<typeof terminal.loadAddon>[0]);
  const hidden = {
    write: (text: string) => new Promise<void>((resolve) => terminal.write(text, resolve)),
    resize: ({ columns, rows }: { columns: number; rows: number }) => terminal.resize(columns, rows),
    canBeDrawn: () => canBeDrawn(terminal),
    draw: () => drawingOf(terminal, serializer.serialize()),
  };
  return { terminal, hidden };
}

/** Colours and styles of what is written. */
interface Style {
  isFgRGB(): boolean;
  isBgRGB(): boolean;
  isFgPalette(): boolean;
  isBgPalette(): boolean;
  getFgColor(): number;
  getBgColor(): number;
  isBold(): number;
  isDim(): number;
  isItalic(): number;
  isUnderline(): number;
  isBlink(): number;
  isInverse(): number;
  isInvisible(): number;
  isStrikethrough(): number;
  isOverline(): number;
}

interface Buffer {
  x: number;
  y: number;
  scrollTop: number;
  scrollBottom: number;
  savedX: number;
  savedY: number;
  savedCurAttrData: Style;
}

/** What the screen does not show, but what the next output depends on. The terminal's interface has no names for it. */
interface Internals {
  buffers: { active: Buffer; normal: Buffer };
  coreService: { isCursorHidden: boolean };
  _charsetService: { charset: unknown };
  _inputHandler: { _curAttrData: Style };
}

function internalsOf(terminal: Terminal): Internals {
  return (terminal as unknown as { _core: Internals })._core;
}

/**
 * Whether the state of the terminal can be written as text: not in the moments in which the next character begins a new
 * line, positions count from the scroll region, or letters are lines of a box.
 */
function canBeDrawn(terminal: Terminal): boolean {
  const { buffers, _charsetService } = internalsOf(terminal);
  return buffers.active.x < terminal.cols && !terminal.modes.originMode && !_charsetService.charset;
}

const TO_ALTERNATE = `${ESC}[?1049h`;

/**
 * Return what draws the screen again, and sets what the serializer leaves out: the scroll region, saved cursors, a
 * hidden cursor, and the style in which the next character is written.
 */
function drawingOf(terminal: Terminal, content: string): string {
  const { buffers, coreService, _inputHandler } = internalsOf(terminal);
  const { active, normal } = buffers;
  // Programs that draw on the second screen return to the cursor that was saved on the first one.
  const saved = goTo(normal.savedX, normal.savedY) + styleOf(normal.savedCurAttrData);
  return [
    content.replace(TO_ALTERNATE, `${saved}${ESC}[?1048h${ESC}[0m${ESC}[?1047h`),
    `${ESC}[${active.scrollTop + 1};${active.scrollBottom + 1}r`,
    `${goTo(active.savedX, active.savedY)}${styleOf(active.savedCurAttrData)}${ESC}7`,
    `${goTo(active.x, active.y)}${styleOf(_inputHandler._curAttrData)}`,
    coreService.isCursorHidden ? `${ESC}[?25l` : "",
  ].join("");
}

function goTo(x: number, y: number): string {
  return `${ESC}[${y + 1};${x + 1}H`;
}

function styleOf(style: Style): string {
  const codes: (string | number)[] = [0];
  const set = (isSet: number, code: number) => isSet && codes.push(code);
  set(style.isBold(), 1);
  set(style.isDim(), 2);
  set(style.isItalic(), 3);
  set(style.isUnderline(), 4);
  set(style.isBlink(), 5);
  set(style.isInverse(), 7);
  set(style.isInvisible(), 8);
  set(style.isStrikethrough(), 9);
  set(style.isOverline(), 53);
  if (style.isFgRGB()) codes.push(`38;2;${partsOf(style.getFgColor())}`);
  else if (style.isFgPalette()) codes.push(`38;5;${style.getFgColor()}`);
  if (style.isBgRGB()) codes.push(`48;2;${partsOf(style.getBgColor())}`);
  else if (style.isBgPalette()) codes.push(`48;5;${style.getBgColor()}`);
  return `${ESC}[${codes.join(";")}m`;
}

function partsOf(colour: number): string {
  return [colour >> 16, (colour >> 8) & 255, colour & 255].join(";");
}
