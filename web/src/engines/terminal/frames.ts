// The frames of a terminal in the browser: one byte kind, four bytes length (big-endian), the payload. See
// docs/how-to/web-terminals.md.

export const STDIN = 2;
export const RESIZE = 4;
export const CREDIT = 6;
export const STDOUT = 17;
export const STDERR = 18;
export const EXIT = 19;
export const WAITS = 20;

const HEADER = 5;
const MAX_PAYLOAD = 64 * 1024; // bytes in a frame that is sent
const MAX_FRAME = 1024 * 1024; // bytes in a frame that is read
const MAX_SIZE = 10_000; // columns, and rows

export interface Frame {
  kind: number;
  payload: Uint8Array;
}

/** How a program ended: its code as a shell reports it, and the signal that ended it, without SIG, or nothing. */
export interface Exit {
  code: number;
  signal: string;
}

export function encodeFrame(kind: number, payload: Uint8Array): Uint8Array<ArrayBuffer> {
  const frame = new Uint8Array(HEADER + payload.length);
  frame[0] = kind;
  new DataView(frame.buffer).setUint32(1, payload.length);
  frame.set(payload, HEADER);
  return frame;
}

/** Encode typed bytes, as as many frames as they need: each message has one whole frame. */
export function encodeInput(bytes: Uint8Array): Uint8Array<ArrayBuffer>[] {
  const frames: Uint8Array<ArrayBuffer>[] = [];
  for (let at = 0; at < bytes.length; at += MAX_PAYLOAD)
    frames.push(encodeFrame(STDIN, bytes.subarray(at, at + MAX_PAYLOAD)));
  return frames;
}

export function encodeSize(columns: number, rows: number): Uint8Array<ArrayBuffer> {
  const payload = new DataView(new ArrayBuffer(4));
  payload.setUint16(0, boundSize(columns));
  payload.setUint16(2, boundSize(rows));
  return encodeFrame(RESIZE, new Uint8Array(payload.buffer));
}

/** Return the nearest size that the gateway accepts. */
export function boundSize(size: number): number {
  return Math.min(Math.max(Math.trunc(size) || 1, 1), MAX_SIZE);
}

export function encodeCredit(bytes: number): Uint8Array<ArrayBuffer> {
  const payload = new DataView(new ArrayBuffer(4));
  payload.setUint32(0, bytes);
  return encodeFrame(CREDIT, new Uint8Array(payload.buffer));
}

/** Read how the program ended. A frame without a code is an end without one: 255, as the gateway reports its own. */
export function readExit(payload: Uint8Array): Exit {
  if (payload.length < 4) return { code: 255, signal: "" };
  const code = new DataView(payload.buffer, payload.byteOffset).getUint32(0) & 0xff;
  const signal = new TextDecoder().decode(payload.subarray(4, 24)).replace(/[^A-Z0-9]/g, "");
  return { code, signal };
}

/** Splits what arrives into frames, wherever it is cut. */
export class FrameReader {
  private rest: Uint8Array = new Uint8Array(0);

  /** Return the frames that these bytes complete. Throws RangeError for a frame that is too long. */
  feed(bytes: Uint8Array): Frame[] {
    const data = this.rest.length === 0 ? bytes : joinBytes([this.rest, bytes]);
    const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
    const frames: Frame[] = [];
    let at = 0;
    while (data.length - at >= HEADER) {
      const length = view.getUint32(at + 1);
      if (length > MAX_FRAME) throw new RangeError(`a frame of ${length} bytes is too long`);
      if (data.length - at < HEADER + length) break;
      frames.push({ kind: view.getUint8(at), payload: data.subarray(at + HEADER, at + HEADER + length) });
      at += HEADER + length;
    }
    this.rest = data.slice(at); // a copy, so that a long message is not kept for its last bytes
    return frames;
  }
}

export function joinBytes(parts: Uint8Array[]): Uint8Array {
  if (parts.length === 1 && parts[0] !== undefined) return parts[0];
  const joined = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}
