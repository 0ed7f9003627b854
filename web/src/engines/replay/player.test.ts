import { expect, test } from "vitest";
import { Player } from "./player";
import type { Chunk, Size } from "./recording";

function fakeScreen() {
  const state = { text: "", resets: 0, size: null as Size | null };
  return {
    state,
    write: (text: string) => {
      state.text += text;
    },
    resize: (size: Size) => {
      state.size = size;
    },
    reset: () => {
      state.text = "";
      state.resets += 1;
    },
  };
}

const CHUNKS: Chunk[] = [
  { at: 0, kind: "size", size: { columns: 100, rows: 30 } },
  { at: 100, kind: "output", text: "a" },
  { at: 200, kind: "output", text: "b" },
  { at: 60_200, kind: "output", text: "c" },
  { at: 60_300, kind: "output", text: "d" },
];

function playing() {
  const screen = fakeScreen();
  const player = new Player(screen, 2_000);
  player.addChunks(CHUNKS);
  return { player, state: screen.state };
}

test("output appears at its time, and a long pause is short", () => {
  const { player, state } = playing();
  player.advance(150);
  expect(state).toEqual({ text: "a", resets: 0, size: { columns: 100, rows: 30 } });
  player.advance(2_050);
  expect(state.text).toBe("abc");
  player.advance(10_000);
  expect([state.text, player.isAtEnd, player.recordedAt]).toEqual(["abcd", true, 60_300]);
});

test("going back begins at the last picture before", () => {
  const { player, state } = playing();
  player.advance(10_000);
  player.addFrames([{ index: 2, size: { columns: 100, rows: 30 }, text: "[a]" }]);
  player.seek(210);
  expect(state).toEqual({ text: "[a]b", resets: 1, size: { columns: 100, rows: 30 } });
  player.seek(0);
  expect(state.text).toBe("");
});

test("going forwards draws only what comes, or begins at a picture that is nearer", () => {
  const { player, state } = playing();
  player.seek(110);
  player.seek(210);
  expect(state).toMatchObject({ text: "ab", resets: 0 });
  player.addFrames([{ index: 4, size: { columns: 100, rows: 30 }, text: "[abc]" }]);
  player.seekRecorded(60_300);
  expect(state).toMatchObject({ text: "[abc]d", resets: 1 });
});

test("other pauses keep the moment", () => {
  const { player } = playing();
  player.seekRecorded(60_250);
  player.setLongestPause(Number.POSITIVE_INFINITY);
  expect(player.position).toBe(60_250);
  expect(player.duration).toBe(60_300);
});
