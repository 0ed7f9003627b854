import { expect, test } from "vitest";
import { type Chunk, Clock, momentsOf, type RecordedEvent, RecordingReader, sizeOf } from "./recording";

const event = (at: number, kind: string, text: string): RecordedEvent => [
  at,
  kind,
  btoa(String.fromCharCode(...new TextEncoder().encode(text))),
];
const output = (at: number, text: string): Chunk => ({ at, kind: "output", text });

test("output and sizes are read, input is not shown", () => {
  const events = [event(0, "r", "120x40"), event(5, "i", "secret"), event(9, "o", "hello"), event(9, "e", "!")];
  expect(new RecordingReader().read(events)).toEqual([
    { at: 0, kind: "size", size: { columns: 120, rows: 40 } },
    output(9, "hello"),
    output(9, "!"),
  ]);
});

test("a character that is split between events is whole", () => {
  const [first, second] = ["4oI=", "rA=="]; // the three bytes of the euro sign
  const reader = new RecordingReader();
  const texts = [...reader.read([[1, "o", first]]), ...reader.read([[2, "o", second]])];
  expect(texts).toEqual([output(2, "€")]);
});

test.each([
  ["80x24", { columns: 80, rows: 24 }],
  ["999999x999999", { columns: 1_000, rows: 500 }],
  ["0x5", null],
  ["x", null],
])("the size %s", (text, size) => {
  expect(sizeOf(text)).toEqual(size);
});

test("pauses are shortened, and a moment can be found again", () => {
  const clock = new Clock([output(1_000, "a"), output(61_000, "b"), output(61_500, "c")], 2_000);
  expect(clock.duration).toBe(3_500);
  expect(clock.playedAt(61_000)).toBe(3_000);
  expect(clock.recordedAt(3_000)).toBe(61_000);
  expect(clock.recordedAt(2_500)).toBe(2_500);
});

test("a text is found across events and sequences, by the time of its first character", () => {
  const chunks = [output(1, "pass"), output(2, "\u001b[31mword\u001b[0m x"), output(3, "PASSWORD")];
  expect(momentsOf(chunks, "password")).toEqual([1, 3]);
  expect(momentsOf(chunks, "")).toEqual([]);
});
