import { expect, test } from "vitest";
import { withoutRepeats } from "./notices";

const note = (text: string) => ({ severity: "NOTE", text });
const warning = (text: string) => ({ severity: "WARNING", text });

test.each([
  ["a note that the client was told", [note("[note] held (rule: writes / read only)"), warning("held")], ["held"]],
  ["a note without details", [note("[note] held\n"), warning("held")], ["held"]],
  ["a note of its own", [note("[note] the script was cut"), warning("held")], ["[note] the script was cut", "held"]],
  ["two warnings of the same words", [warning("held"), warning("held")], ["held", "held"]],
])("%s", (_, notices, shown) => {
  expect(withoutRepeats(notices).map(({ text }) => text)).toEqual(shown);
});
