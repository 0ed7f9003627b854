// Where in a text something is that the gateway or a database has told. They count characters, an editor UTF-16 units.

import { GO_LINE } from "./dialects";

export interface Range {
  from: number;
  to: number;
}

/** What the error of a script says about its place. */
export interface ErrorPlace {
  text: string;
  /** In characters from 1. */
  position: number | null;
  line_text: string | null;
  detail?: string;
}

/** Return the index in UTF-16 units of what is after so many characters (code points). */
export function unitsOf(text: string, characters: number): number {
  let at = 0;
  for (let count = 0; count < characters && at < text.length; count += 1) {
    at += (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  }
  return at;
}

// MySQL and MariaDB quote what follows the error instead of counting.
const NEAR = /\bnear '([\s\S]+)' at line \d+$/;

// SQL Server counts the lines of a batch; those of a script with GO are not known.
const BATCH_LINE = /^Line (\d+)$/;
const GO = new RegExp(GO_LINE, "im");
const QUOTED = /'([^']+)'/;

/** Return where an error is in the script that ran, or null if that is unknown or the line is another one by now. */
export function errorRange(script: string, error: ErrorPlace): Range | null {
  if (error.position !== null) {
    const at = unitsOf(script, error.position - 1);
    const start = script.lastIndexOf("\n", at - 1) + 1;
    const line = script.slice(start).split("\n", 1)[0];
    return line === error.line_text ? wordAt(script, at) : null;
  }
  const line = BATCH_LINE.exec(error.detail ?? "")?.[1];
  if (line !== undefined) return GO.test(script) ? null : lineRange(script, Number(line), QUOTED.exec(error.text)?.[1]);
  const near = NEAR.exec(error.text)?.[1];
  if (near === undefined) return null;
  const at = script.indexOf(near);
  return at >= 0 && script.indexOf(near, at + 1) < 0 ? wordAt(script, at) : null;
}

/** Return the place of a name in a line, or the line; null if it is empty or not there. */
function lineRange(script: string, number: number, name: string | undefined): Range | null {
  const lines = script.split("\n");
  const line = lines[number - 1];
  if (!line?.trim()) return null;
  const start = lines.slice(0, number - 1).reduce((sum, { length }) => sum + length + 1, 0);
  const at = name === undefined ? -1 : line.indexOf(name);
  if (name !== undefined && at >= 0) return { from: start + at, to: start + at + name.length };
  return { from: start + line.length - line.trimStart().length, to: start + line.trimEnd().length };
}

/** Return the word at an index, or the character there; at the end of the text the last one. */
export function wordAt(text: string, at: number): Range {
  const word = /^[\p{L}\p{N}_$]+/u.exec(text.slice(at, at + 200))?.[0] ?? "";
  if (word) return { from: at, to: at + word.length };
  if (at < text.length && text[at] !== "\n") return { from: at, to: at + unitsOf(text.slice(at, at + 2), 1) };
  const before = text.slice(0, at).trimEnd().length;
  return before === 0 ? { from: 0, to: Math.min(1, text.length) } : { from: before - 1, to: before };
}
