// Answers that come line by line while the gateway works: each line is one JSON document.

import { LineSplitter } from "../engines/lines";

/** Yield the documents of a stream as they come. Ending the loop early ends the request. */
export async function* readLines<Line>(stream: ReadableStream<Uint8Array>): AsyncGenerator<Line> {
  const reader = stream.getReader();
  const splitter = new LineSplitter();
  try {
    while (true) {
      const { done, value } = await reader.read();
      for (const line of done ? splitter.finish() : splitter.push(value)) yield JSON.parse(line) as Line;
      if (done) return;
    }
  } finally {
    await reader.cancel().catch(() => {}); // it broke: the error is thrown already
  }
}
