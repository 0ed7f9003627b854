// Characters that change how a text is read without being seen: they are shown as marks wherever people read or decide.

/** A piece of a text: as it is, or a mark for a character that would not be seen. */
export interface Piece {
  text: string;
  mark: boolean;
}

// Controls except line feed and tab, formats (bidirectional, zero-width), separators of lines, and unassigned ones.
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}\u{115f}\u{1160}\u{3164}\u{ffa0}]/u;
const PASSES = new Set(["\n", "\t"]);

/** Split a text into pieces, so that each invisible character is a mark with its code point. */
export function withMarks(text: string): Piece[] {
  const pieces: Piece[] = [];
  let plain = "";
  for (const character of text) {
    if (PASSES.has(character) || !INVISIBLE.test(character)) {
      plain += character;
      continue;
    }
    if (plain) pieces.push({ text: plain, mark: false });
    plain = "";
    pieces.push({ text: codePoint(character), mark: true });
  }
  if (plain) pieces.push({ text: plain, mark: false });
  return pieces;
}

/** Return a text with its marks as words, where only a text can be shown: hints of fields and options. */
export function markedWords(text: string): string {
  return withMarks(text)
    .map((piece) => piece.text)
    .join("");
}

function codePoint(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}
