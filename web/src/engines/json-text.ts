// JSON as it is read best: each value on a line of its own, with its digits and the order of its keys as they were.

const LARGEST = 200_000; // characters, before and after; a larger text stays as it is
const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** Return an object or an array as indented text; null for any other text. Numbers keep all their digits. */
export function indentedJson(text: string): string | null {
  return text.length <= LARGEST && /^\s*[[{]/.test(text) && isJson(text) ? indent(text) : null;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function indent(text: string): string | null {
  let [indented, before, depth] = ["", "", 0];
  for (const [token] of text.matchAll(TOKEN)) {
    const isEnd = token === "}" || token === "]";
    if (isEnd) depth -= 1;
    const isEmpty = isEnd && (before === "{" || before === "[");
    if (!isEmpty && (isEnd || before === "{" || before === "[" || before === ","))
      indented += `\n${"  ".repeat(depth)}`;
    indented += token === ":" ? ": " : token;
    if (token === "{" || token === "[") depth += 1;
    if (indented.length > LARGEST) return null;
    before = token;
  }
  return indented;
}
