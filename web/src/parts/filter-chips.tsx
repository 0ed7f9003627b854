import { common } from "../messages/common";
import { Button } from "./button";
import { Chip } from "./chip";
import styles from "./filters.module.css";
import { MarkedText } from "./marked-text";

export interface FilterChip {
  /** What is narrowed, such as "User". */
  label?: string;
  words: string;
  onRemove: () => void;
}

/** The filters that are set, each in words with a button that removes it. */
export function FilterChips({ label, chips, onClear }: { label: string; chips: FilterChip[]; onClear?: () => void }) {
  if (chips.length === 0) return null;
  return (
    <ul className={styles.chips} aria-label={label}>
      {chips.map(({ label, words, onRemove }) => {
        const whole = label === undefined ? words : `${label}: ${words}`;
        return (
          <li key={whole}>
            <Chip kind="info">
              {label !== undefined && `${label}: `}
              <MarkedText text={words} />
            </Chip>
            <Button kind="quiet" aria-label={common.remove(whole)} onPress={onRemove}>
              ×
            </Button>
          </li>
        );
      })}
      {onClear && chips.length > 1 && (
        <li>
          <Button kind="quiet" onPress={onClear}>
            {common.clearFilters}
          </Button>
        </li>
      )}
    </ul>
  );
}
