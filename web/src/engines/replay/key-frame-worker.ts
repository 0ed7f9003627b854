// A worker that draws a recording on a hidden terminal while its pages arrive, so that the page stays quick.

import { headlessTerminal } from "./headless-terminal";
import { KeyFrameMaker } from "./key-frames";
import type { Chunk } from "./recording";

const maker = new KeyFrameMaker(headlessTerminal().hidden);

let work = Promise.resolve();
addEventListener("message", (event: MessageEvent<Chunk[]>) => {
  work = work.then(async () => postMessage(await maker.add(event.data)));
});
