// Answers that come line by line while the gateway works: each line is one JSON document.

/** Yield the documents of a stream as they come. Ending the loop early ends the request. */
export async function* readLines<Line>(stream: ReadableStream<Uint8Array>): AsyncGenerator<Line> {
  const reader = stream.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>).getReader();
  let rest = "";
  try {
    while (true) {
      const { done, value } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) if (line) yield JSON.parse(line) as Line;
    }
    if (rest) yield JSON.parse(rest) as Line;
  } finally {
    await reader.cancel();
  }
}
