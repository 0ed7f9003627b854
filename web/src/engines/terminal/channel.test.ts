import { expect, test, vi } from "vitest";
import { TerminalChannel } from "./channel";
import { CREDIT, EXIT, encodeFrame, joinBytes, RESIZE, STDERR, STDIN, STDOUT, WAITS } from "./frames";

const REVIEW = "0190e5a4-7c11-7abc-8def-0123456789ab";
const bytes = (text: string) => new TextEncoder().encode(text);

function makeChannel() {
  const sent: number[][] = [];
  const handlers = { onOpened: vi.fn(), onOutput: vi.fn(), onWaits: vi.fn() };
  const channel = new TerminalChannel({ columns: 80, rows: 24 }, (frame) => sent.push([...frame]), handlers);
  return { channel, sent, handlers };
}

function openChannel() {
  const made = makeChannel();
  made.channel.takeStatus('{"status": "opened", "window": 262144}');
  made.sent.length = 0;
  return made;
}

test("nothing is sent before it is opened, then the size that it has now", () => {
  const { channel, sent, handlers } = makeChannel();
  channel.type(bytes("lost"));
  channel.resize({ columns: 100, rows: 30 });
  expect(sent).toEqual([]);
  channel.takeStatus('{"status": "opened", "window": 262144}');
  expect(sent).toEqual([[RESIZE, 0, 0, 0, 4, 0, 100, 0, 30]]);
  expect(handlers.onOpened).toHaveBeenCalledOnce();
  channel.type(bytes("a"));
  expect(sent.at(-1)).toEqual([STDIN, 0, 0, 0, 1, 97]);
});

test("credit is returned once the terminal has drawn the output, for all of it", () => {
  const { channel, sent, handlers } = openChannel();
  channel.takeFrames(joinBytes([encodeFrame(STDOUT, bytes("abc")), encodeFrame(STDERR, bytes("de"))]));
  expect(sent).toEqual([]);
  const [drawn, processed] = handlers.onOutput.mock.calls[0] ?? [];
  expect(new TextDecoder().decode(drawn)).toBe("abcde");
  processed();
  expect(sent).toEqual([[CREDIT, 0, 0, 0, 4, 0, 0, 0, 5]]);
});

test("what it waits for is the review that the gateway named before", () => {
  const { channel, handlers } = openChannel();
  const notice = encodeFrame(STDERR, bytes(`postern: a review. Review ${REVIEW} is pending until noon\r\n`));
  channel.takeFrames(joinBytes([notice, encodeFrame(WAITS, new Uint8Array([1]))]));
  channel.takeFrames(encodeFrame(WAITS, new Uint8Array([0])));
  expect(handlers.onWaits.mock.calls).toEqual([[REVIEW], [null]]);
});

test("its end has the exit code and the last message of the gateway", () => {
  const { channel } = openChannel();
  channel.takeFrames(encodeFrame(STDERR, bytes("postern: first\r\npostern: this session was killed\r\n")));
  channel.takeFrames(encodeFrame(EXIT, new Uint8Array([0, 0, 0, 255])));
  channel.takeStatus('{"status": "closed", "code": 1000, "message": "the program has ended"}');
  expect(channel.endOf(channel.closedBy ?? { code: null, message: "" })).toEqual({
    code: 1000,
    message: "the program has ended",
    exit: { code: 255, signal: "" },
    notice: "this session was killed",
  });
});
