import { StreamLanguage, type StreamParser } from "@codemirror/language";

interface State {
  /** What the text or comment that goes on over several lines ends with. */
  until: "`" | "*/" | null;
  /** Whether a slash begins a regular expression here. */
  isValueNext: boolean;
}

const WORDS = new Set(["db", "use", "show", "new"]);
const CONSTANTS = new Set(["true", "false", "null", "undefined", "NaN", "Infinity", "MinKey", "MaxKey"]);

const PARSER: StreamParser<State> = {
  name: "mongosh",
  startState: () => ({ until: null, isValueNext: true }),
  token(stream, state) {
    if (state.until !== null) return goOn(stream, state, state.until);
    if (stream.eatSpace()) return null;
    if (stream.match("//")) {
      stream.skipToEnd();
      return "comment";
    }
    if (stream.match("/*")) return goOn(stream, state, "*/");
    const isValueNext = state.isValueNext;
    state.isValueNext = false;
    if (stream.match("`")) return goOn(stream, state, "`");
    if (stream.match(/^"(?:[^"\\]|\\.)*"?|^'(?:[^'\\]|\\.)*'?/)) return "string";
    if (isValueNext && stream.match(/^\/(?:[^/\\[]|\\.|\[(?:[^\]\\]|\\.)*\])+\/\w*/)) return "string-2";
    if (stream.match(/^\d[\w.]*/)) return "number";
    const name = stream.match(/^[\p{L}_$][\p{L}\p{N}_$]*/u);
    if (name) return styleOf((name as RegExpMatchArray)[0]);
    state.isValueNext = /[(,:[{;]/.test(stream.next() ?? "");
    return null;
  },
  languageData: { commentTokens: { line: "//", block: { open: "/*", close: "*/" } } },
};

function goOn(stream: Parameters<StreamParser<State>["token"]>[0], state: State, until: "`" | "*/"): string {
  const end = until === "`" ? /^(?:[^`\\]|\\.)*`/ : /^.*?\*\//;
  state.until = stream.match(end) ? null : until;
  if (state.until !== null) stream.skipToEnd();
  return until === "`" ? "string" : "comment";
}

/** Operators such as `$match` are what a reader looks for in a pipeline. */
function styleOf(name: string): string | null {
  if (CONSTANTS.has(name)) return "bool";
  return WORDS.has(name) || name.startsWith("$") ? "keyword" : null;
}

/** The language of scripts for MongoDB: statements of its shell, which are no JavaScript. */
export const shellLanguage = StreamLanguage.define(PARSER);
