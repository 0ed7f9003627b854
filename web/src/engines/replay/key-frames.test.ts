import { expect, test } from "vitest";
import { EMPTY_FRAME, frameBefore, KeyFrameMaker } from "./key-frames";
import type { Chunk, Size } from "./recording";

function fakeTerminal() {
  let screen = "";
  const sizes: Size[] = [];
  const write = async (text: string) => {
    screen += text;
  };
  return { write, resize: (size: Size) => void sizes.push(size), canBeDrawn: () => true, draw: () => screen, sizes };
}

const LONG = "x".repeat(40_000);
const CHUNKS: Chunk[] = [0, 1, 2, 3, 4].map((at) => ({ at, kind: "output", text: `${at}${LONG}` }));

test("a picture is what was drawn before its chunk, whatever the pages are", async () => {
  const whole = await new KeyFrameMaker(fakeTerminal()).add(CHUNKS);
  const paged = new KeyFrameMaker(fakeTerminal());
  expect([...(await paged.add(CHUNKS.slice(0, 1))), ...(await paged.add(CHUNKS.slice(1)))]).toEqual(whole);
  expect(whole.map(({ index, text }) => [index, text.length])).toEqual([
    [2, 80_002],
    [4, 160_004],
  ]);
});

test("a picture has the size that the terminal has then", async () => {
  const terminal = fakeTerminal();
  const size = { columns: 100, rows: 30 };
  const frames = await new KeyFrameMaker(terminal).add([{ at: 0, kind: "size", size }, ...CHUNKS]);
  expect(frames[0]?.size).toEqual(size);
  expect(terminal.sizes).toEqual([size]);
});

test("a replay begins at the last picture before a moment", () => {
  const frames = [2, 4].map((index) => ({ ...EMPTY_FRAME, index }));
  expect([0, 1, 2, 3, 4, 9].map((index) => frameBefore(frames, index).index)).toEqual([0, 0, 2, 2, 4, 4]);
});
