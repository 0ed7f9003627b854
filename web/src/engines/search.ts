// The router leaves in a route's search what its validateSearch dropped. Where a wrong value would do harm, a screen
// validates what it reads once more.

/** Return a part of an address's query, if it is a text that is not empty. */
export function textOf<Name extends string>(search: Record<string, unknown>, name: Name): { [key in Name]?: string } {
  const value = search[name];
  return (typeof value === "string" && value ? { [name]: value } : {}) as { [key in Name]?: string };
}

/** Return a part of an address's query, if it is one of these words. */
export function choiceOf<Name extends string, const Choice extends string>(
  search: Record<string, unknown>,
  name: Name,
  choices: readonly Choice[],
): { [key in Name]?: Choice } {
  const value = search[name] as Choice;
  return (choices.includes(value) ? { [name]: value } : {}) as { [key in Name]?: Choice };
}

/** Return the parts of an address's query that are texts or numbers, as texts. */
export function textsOf<Name extends string>(
  search: Record<string, unknown>,
  names: readonly Name[],
): { [key in Name]?: string } {
  const texts: [string, string][] = [];
  for (const name of names) {
    const value = search[name];
    if ((typeof value === "string" && value) || typeof value === "number") texts.push([name, String(value)]);
  }
  return Object.fromEntries(texts) as { [key in Name]?: string };
}
