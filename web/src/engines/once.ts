/**
 * Return a function that makes something once for all calls with the same texts. For formats of `Intl`: to make one takes
 * half a millisecond, as long as hundreds of uses, and a list needs two for each row.
 */
export function once<Made, Texts extends string[]>(make: (...texts: Texts) => Made): (...texts: Texts) => Made {
  const made = new Map<string, Made>();
  return (...texts) => {
    const key = texts.join("\n");
    const known = made.get(key);
    if (known !== undefined) return known;
    const one = make(...texts);
    made.set(key, one);
    return one;
  };
}
