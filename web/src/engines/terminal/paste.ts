// What is pasted into a terminal is sent as if it was typed: each line runs, and control characters steer the program.

import { withMarks } from "../marks";

/** Characters that a paste can have. */
export const LONGEST_PASTE = 1_000_000;

// ESC and the 8-bit controls begin sequences, such as that which ends a bracketed paste.
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const SEQUENCES = /[\u001b\u0080-\u009f]/g;
const LINE_BREAK = /[\r\n]/;

export interface Paste {
  /** What would be sent. */
  text: string;
  /** How many characters were removed. */
  removed: number;
  lines: number;
  /** Whether the user must see it first: it has more than one line, or characters that cannot be seen. */
  isSuspicious: boolean;
  isTooLong: boolean;
}

export function inspectPaste(pasted: string): Paste {
  const text = pasted.replace(SEQUENCES, "");
  const lines = text.replace(/(\r\n|\r|\n)$/, "").split(/\r\n|\r|\n/).length;
  const isTooLong = text.length > LONGEST_PASTE;
  const removed = pasted.length - text.length;
  const isSuspicious = isTooLong || removed > 0 || LINE_BREAK.test(text) || withMarks(text).some(({ mark }) => mark);
  return { text, removed, lines, isSuspicious, isTooLong };
}
