// A recorded terminal as a replay has it: output and sizes in the order of time, and times without long pauses.

import { ESC, ScreenFilter } from "../terminal/screen-filter";

/** An event of a recording as the API has it: milliseconds since the start, kind, and bytes in base64. */
export type RecordedEvent = [number, string, string];

/** Some output, or a new size, at a moment. Output is filtered: it only draws. */
export type Chunk = { at: number; kind: "output"; text: string } | { at: number; kind: "size"; size: Size };

export interface Size {
  columns: number;
  rows: number;
}

export const FIRST_SIZE: Size = { columns: 80, rows: 24 };
const LARGEST: Size = { columns: 1_000, rows: 500 }; // more is drawn as this: a size is chosen by who is recorded
const OUTPUT = new Set(["o", "e"]);

/** Turns recorded events into chunks, page by page: characters and sequences can be split between events. */
export class RecordingReader {
  private readonly decoder = new TextDecoder("utf-8");
  private readonly filter = new ScreenFilter();

  read(events: readonly RecordedEvent[]): Chunk[] {
    const chunks: Chunk[] = [];
    for (const [at, kind, data] of events) {
      const bytes = fromBase64(data);
      if (OUTPUT.has(kind)) {
        const text = this.filter.feed(this.decoder.decode(bytes, { stream: true }));
        if (text) chunks.push({ at, kind: "output", text });
      } else if (kind === "r") {
        const size = sizeOf(new TextDecoder().decode(bytes));
        if (size) chunks.push({ at, kind: "size", size });
      }
    }
    return chunks;
  }
}

/** Return a size such as `80x24`, at most as large as can be drawn; null for anything else. */
export function sizeOf(text: string): Size | null {
  const match = /^(\d{1,6})x(\d{1,6})$/.exec(text);
  if (match === null) return null;
  const [columns, rows] = [Number(match[1]), Number(match[2])];
  if (columns < 1 || rows < 1) return null;
  return { columns: Math.min(columns, LARGEST.columns), rows: Math.min(rows, LARGEST.rows) };
}

/** The times of a replay, which shortens pauses: `played` from `recorded` milliseconds, and back. */
export class Clock {
  private readonly recorded: number[] = [0];
  private readonly played: number[] = [0];

  constructor(
    chunks: readonly Chunk[],
    private readonly longestPause: number,
  ) {
    for (const { at } of chunks) this.add(at);
  }

  get duration(): number {
    return this.played.at(-1) ?? 0;
  }

  playedAt(recorded: number): number {
    const index = lastAtMost(this.recorded, recorded);
    const pause = Math.min(recorded - (this.recorded[index] ?? 0), this.longestPause);
    return (this.played[index] ?? 0) + pause;
  }

  recordedAt(played: number): number {
    const index = lastAtMost(this.played, played);
    const next = this.recorded[index + 1] ?? Number.POSITIVE_INFINITY;
    return Math.min((this.recorded[index] ?? 0) + played - (this.played[index] ?? 0), next);
  }

  private add(at: number): void {
    const before = this.recorded.at(-1) ?? 0;
    if (at <= before) return;
    this.recorded.push(at);
    this.played.push((this.played.at(-1) ?? 0) + Math.min(at - before, this.longestPause));
  }
}

/** Return the index of the last of these ascending numbers that is at most `limit`; 0 if none is. */
export function lastAtMost(numbers: readonly number[], limit: number): number {
  let low = 0;
  let high = numbers.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((numbers[middle] ?? 0) <= limit) low = middle;
    else high = middle - 1;
  }
  return low;
}

const SEQUENCE = new RegExp(`${ESC}(?:\\[[0-9;:?]*[@-~]|[()*+].|.)`, "g");

/** Find the moments at which a text was shown, by the output without its sequences. At most `most` of them. */
export function momentsOf(chunks: readonly Chunk[], words: string, most = 200): number[] {
  if (!words) return [];
  const starts: number[] = [];
  const times: number[] = [];
  let text = "";
  for (const chunk of chunks) {
    if (chunk.kind !== "output") continue;
    starts.push(text.length);
    times.push(chunk.at);
    text += chunk.text.replace(SEQUENCE, "");
  }
  const moments: number[] = [];
  const [haystack, needle] = [text.toLowerCase(), words.toLowerCase()];
  for (let at = haystack.indexOf(needle); at >= 0 && moments.length < most; at = haystack.indexOf(needle, at + 1))
    moments.push(times[lastAtMost(starts, at)] ?? 0);
  return moments.filter((moment, index) => moment !== moments[index - 1]);
}

export function fromBase64(data: string): Uint8Array {
  const text = atob(data);
  const bytes = new Uint8Array(text.length);
  for (let index = 0; index < text.length; index += 1) bytes[index] = text.charCodeAt(index);
  return bytes;
}
