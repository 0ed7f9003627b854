import { useEffect, useState } from "react";

/** Return a value once it has not changed for some milliseconds, so that a request follows a pause and not each key. */
export function useSettled<Value>(value: Value, pause: number): Value {
  const [settled, setSettled] = useState(value);
  const words = JSON.stringify(value);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the value is compared by what it has
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), pause);
    return () => clearTimeout(timer);
  }, [words, pause]);
  return settled;
}
