// Scripts of HTTP requests, as .http files have them: where each request begins and ends, and its placeholders. Enough
// for an editor's help, not for rules.

import type { Span } from "./shell";

const SEPARATOR = /^###.*$/gm;
const IGNORED = /^(?:[ \t\r]*(?:(?:#|\/\/)[^\n]*)?(?:\n|$))*/;
const PLACEHOLDER = /(?:(?<=[/=])|(?<=^[ \t])|(?<=[:,[][ \t])|(?<=[:,[])|(?<=\n)):([A-Za-z_]\w*)(?=[\s/?&;,\]}]|$)/gm;
const QUOTED = /"(?:[^"\\\n]|\\.)*"/g;

/** Return the requests of a script: lines that begin with ### separate them. */
export function requestSpans(text: string): Span[] {
  const ends = [...text.matchAll(SEPARATOR)].map((match) => [match.index, match.index + match[0].length] as const);
  const starts = [0, ...ends.map(([, after]) => after)];
  return starts.flatMap((from, place) => {
    const part = text.slice(from, ends[place]?.[0] ?? text.length);
    const ignored = IGNORED.exec(part)?.[0].length ?? 0;
    const request = part.slice(ignored);
    if (!request.trim()) return [];
    const start = from + ignored + request.length - request.trimStart().length;
    return [{ start, end: from + part.trimEnd().length }];
  });
}

/** Return the names of placeholders `:name`, each once: in paths, queries, headers and bodies, and not in quotes. */
export function requestPlaceholders(text: string): string[] {
  const code = text.replace(QUOTED, (quoted) => '"'.repeat(quoted.length));
  return [...new Set([...code.matchAll(PLACEHOLDER)].map((match) => match[1] ?? ""))];
}
