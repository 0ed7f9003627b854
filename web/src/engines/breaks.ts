// Where a long name, address or path can break over lines, so that it does not break within a word.

const LONGEST_TEXT = 256; // characters of a text that is looked at: longer ones are no names
const LONGEST_WORD = 24; // characters of a piece without a place to break
const PIECE = 16;

// After a separator, before a letter: not within numbers and times, such as 1.5 and 09:30.
const PLACES = /(?<=[@/_=&?,;])(?=[\p{L}\p{N}])|(?<=[.:])(?=\p{L})/u;

/** Return a text in pieces between which it can break. */
export function breakable(text: string): string[] {
  if (text.length > LONGEST_TEXT) return [text];
  return text.split(PLACES).flatMap((piece) => (hasLongWord(piece) ? cut(piece) : [piece]));
}

function hasLongWord(piece: string): boolean {
  return piece.split(/[\s-]/u).some((word) => word.length > LONGEST_WORD);
}

/** Cut a long word, such as a hash, into pieces of one length. */
function cut(piece: string): string[] {
  const characters = [...piece];
  const count = Math.ceil(characters.length / PIECE);
  return Array.from({ length: count }, (_, index) => characters.slice(index * PIECE, (index + 1) * PIECE).join(""));
}
