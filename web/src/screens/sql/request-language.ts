import { StreamLanguage, type StreamParser, type StringStream } from "@codemirror/language";

interface State {
  /** The quote that a text of several lines ends with. */
  quote: string | null;
  /** Which part of a request the line is in. */
  part: "request" | "headers" | "body";
}

const METHOD = /^[A-Z][A-Z-]*(?=[ \t]+\/)/;
const CONSTANT = /^(?:true|false|null)\b/;
const PARTIQL =
  /^(?:SELECT|FROM|WHERE|AND|OR|NOT|IN|BETWEEN|ORDER|BY|INSERT|INTO|VALUE|UPDATE|SET|REMOVE|DELETE|EXISTS|IS|MISSING)\b/i;

/** What JSON has, and placeholders. */
function value(stream: StringStream): string | null {
  if (stream.match(/^"(?:[^"\\]|\\.)*"?/)) return "string";
  if (stream.match(/^-?\d[\d.]*(?:e[+-]?\d+)?\b/i)) return "number";
  if (stream.match(CONSTANT)) return "bool";
  stream.next();
  return null;
}

const REQUESTS: StreamParser<State> = {
  name: "http requests",
  startState: () => ({ quote: null, part: "request" }),
  blankLine: (state) => {
    if (state.part === "headers") state.part = "body";
  },
  token(stream, state) {
    if (stream.sol() && stream.match("###")) {
      state.part = "request";
      stream.skipToEnd();
      return "comment";
    }
    if (state.part === "body") return stream.eatSpace() ? null : value(stream);
    if (stream.sol() && stream.match(/^[ \t]*(?:#|\/\/).*/)) return "comment";
    if (stream.sol() && state.part === "headers" && stream.match(/^[\w!#$%&'*+.^`|~-]+(?=:)/)) return "keyword";
    if (stream.sol() && state.part === "request") {
      stream.eatSpace();
      if (!stream.eol()) state.part = "headers";
      if (stream.match(METHOD)) return "keyword";
    }
    stream.skipToEnd();
    return null;
  },
};

const COMMANDS: StreamParser<State> = {
  name: "commands",
  startState: () => ({ quote: null, part: "request" }),
  token(stream, state) {
    if (state.quote !== null) return quoted(stream, state, state.quote);
    if (stream.eatSpace()) return null;
    const before = stream.string[stream.pos - 1] ?? " ";
    const isWordNext = /[\s(]/.test(before);
    if (isWordNext && stream.match(/^#.*/)) return "comment";
    if (stream.match("'")) return quoted(stream, state, "'");
    if (stream.match('"')) return quoted(stream, state, '"');
    if (isWordNext && (stream.match(/^--[\w-]+/) || stream.match(PARTIQL))) return "keyword";
    if (stream.match(/^[A-Z][A-Za-z0-9]+(?=\s*\{)/)) return "keyword";
    if (isWordNext && stream.match(CONSTANT)) return "bool";
    if (isWordNext && stream.match(/^-?\d[\d.]*(?=[\s,;)}\]]|$)/)) return "number";
    if (!stream.match(/^[\w./-]+/)) stream.next();
    return null;
  },
  languageData: { commentTokens: { line: "#" } },
};

function quoted(stream: StringStream, state: State, quote: string): string {
  const end = quote === "'" ? /^[^']*'/ : /^(?:[^"\\]|\\.)*"/;
  state.quote = stream.match(end) ? null : quote;
  if (state.quote !== null) stream.skipToEnd();
  return "string";
}

/** Requests as .http files have them. */
export const requestLanguage = StreamLanguage.define(REQUESTS);

/** Command lines, operations in JSON, and PartiQL. */
export const commandLanguage = StreamLanguage.define(COMMANDS);
