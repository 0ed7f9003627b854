import { useEffect, useState } from "react";
import { Input, Label, SearchField } from "react-aria-components";
import styles from "./search.module.css";

const PAUSE = 250; // milliseconds without a key after which the list is asked for

interface Props {
  label: string;
  value: string;
  onSearch: (value: string) => void;
}

/** A field that searches while one types, once a pause shows that a word is whole; Enter searches at once. */
export function Search({ label, value, onSearch }: Props) {
  const [typed, setTyped] = useState(value);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only what is typed starts the pause
  useEffect(() => {
    if (typed === value) return;
    const pause = setTimeout(() => onSearch(typed), PAUSE);
    return () => clearTimeout(pause);
  }, [typed]);
  useEffect(() => setTyped(value), [value]);
  return (
    <SearchField className={styles.search ?? ""} value={typed} onChange={setTyped} onSubmit={onSearch}>
      <Label className="visually-hidden">{label}</Label>
      <Input placeholder={label} />
    </SearchField>
  );
}
