import { expect, test } from "vitest";
import {
  boundSize,
  encodeCredit,
  encodeFrame,
  encodeInput,
  encodeSize,
  FrameReader,
  joinBytes,
  readExit,
  STDERR,
  STDIN,
  STDOUT,
  WAITS,
} from "./frames";

const bytes = (text: string) => new TextEncoder().encode(text);
const text = (payload: Uint8Array) => new TextDecoder().decode(payload);

test("frames are what the gateway's documentation says", () => {
  expect([...encodeFrame(STDIN, bytes("ls"))]).toEqual([2, 0, 0, 0, 2, 108, 115]);
  expect([...encodeSize(300, 24)]).toEqual([4, 0, 0, 0, 4, 1, 44, 0, 24]);
  expect([...encodeCredit(65_536)]).toEqual([6, 0, 0, 0, 4, 0, 1, 0, 0]);
});

test("frames are read wherever the stream is cut", () => {
  const frames = [
    encodeFrame(STDOUT, bytes("größe")),
    encodeFrame(WAITS, new Uint8Array([1])),
    encodeFrame(STDERR, new Uint8Array(0)),
    encodeFrame(STDOUT, bytes("end")),
  ];
  const stream = joinBytes(frames);
  for (let first = 0; first <= stream.length; first += 1)
    for (let second = first; second <= stream.length; second += 1) {
      const reader = new FrameReader();
      const parts = [stream.slice(0, first), stream.slice(first, second), stream.slice(second)];
      const found = parts.flatMap((part) => reader.feed(part));
      expect(found.map(({ kind, payload }) => [kind, text(payload)])).toEqual([
        [STDOUT, "größe"],
        [WAITS, "\u0001"],
        [STDERR, ""],
        [STDOUT, "end"],
      ]);
    }
});

test("a frame within a larger buffer is read at its place", () => {
  const buffer = joinBytes([bytes("xx"), encodeFrame(STDOUT, bytes("here"))]);
  const [frame] = new FrameReader().feed(buffer.subarray(2));
  expect(text(frame?.payload ?? bytes(""))).toBe("here");
});

test("a frame that claims to be too long ends the terminal instead of filling the memory", () => {
  expect(() => new FrameReader().feed(new Uint8Array([STDOUT, 0xff, 0xff, 0xff, 0xff]))).toThrow(RangeError);
});

test("long input is sent in several frames, and nothing is lost", () => {
  const typed = new Uint8Array(150_000).map((_, index) => index % 251);
  const frames = encodeInput(typed);
  expect(frames.every((frame) => frame.length <= 64 * 1024 + 5)).toBe(true);
  const reader = new FrameReader();
  const back = frames.flatMap((frame) => reader.feed(frame));
  expect(joinBytes(back.map(({ payload }) => payload))).toEqual(typed);
  expect(encodeInput(new Uint8Array(0))).toEqual([]);
});

test.each([
  [[0, 0, 0, 3], { code: 3, signal: "" }],
  [[0, 0, 0, 137, 75, 73, 76, 76], { code: 137, signal: "KILL" }],
  [[0, 0, 0, 1, 27, 91, 75], { code: 1, signal: "K" }],
  [[0, 1], { code: 255, signal: "" }],
])("the end %j is read", (payload, exit) => {
  expect(readExit(new Uint8Array(payload))).toEqual(exit);
});

test.each([
  [80, 80],
  [0, 1],
  [Number.NaN, 1],
  [1e9, 10_000],
  [79.6, 79],
])("a size of %d is sent as %d", (size, sent) => {
  expect(boundSize(size)).toBe(sent);
});
