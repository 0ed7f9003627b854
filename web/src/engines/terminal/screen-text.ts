// What a terminal's program writes for the page around it: a title, links. All of it is somebody else's text.

import { withMarks } from "../marks";

const LONGEST_TITLE = 40;
const URL_IN_TEXT = /https?:\/\/[^\s"'<>`{}|\\^\p{Cc}\p{Cf}]+/gu;
const END_OF_SENTENCE = /[.,;:!?)\]]+$/;
const PENDING_REVIEW = /Review ([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}) is pending/;

/** Return a title without characters that cannot be seen, and cut. */
export function cleanTitle(title: string): string {
  const seen = withMarks(title.slice(0, 1_000)).filter(({ mark }) => !mark);
  const words = seen
    .map(({ text }) => text)
    .join("")
    .replace(/\s+/g, " ")
    .trim();
  const characters = [...words];
  return characters.length > LONGEST_TITLE ? `${characters.slice(0, LONGEST_TITLE - 1).join("")}…` : words;
}

export interface LinkInText {
  start: number;
  end: number;
  url: string;
}

/** Find addresses in a line; a full stop or bracket behind one belongs to the sentence. */
export function findLinks(line: string): LinkInText[] {
  return [...line.matchAll(URL_IN_TEXT)].flatMap(({ 0: found, index }) => {
    const url = found.includes("(") ? found.replace(/[.,;:!?]+$/, "") : found.replace(END_OF_SENTENCE, "");
    return webAddress(url) === null ? [] : [{ start: index, end: index + url.length, url }];
  });
}

/** Return an address as a browser would open it, if it is one of the web. */
export function webAddress(text: string): URL | null {
  const url = URL.canParse(text) ? new URL(text) : null;
  return url !== null && (url.protocol === "https:" || url.protocol === "http:") ? url : null;
}

/** Return the identifier of the review that a message of the gateway says it waits for. */
export function pendingReview(message: string): string | null {
  return PENDING_REVIEW.exec(message)?.[1] ?? null;
}
