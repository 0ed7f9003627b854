import { indentedJson } from "../engines/json-text";
import type { Mask } from "../engines/masks";
import type { Cells } from "../engines/results";
import { common } from "../messages/common";
import { Button } from "./button";
import { Dialog } from "./dialog";
import { Masked, Value } from "./grid-row";
import { Json } from "./json";
import { MarkedText } from "./marked-text";
import styles from "./row-record.module.css";

const MOST = 500; // columns
const LONGEST = 100_000; // characters of a value

interface Props {
  isOpen: boolean;
  onClose: () => void;
  /** The place of the row among those that are shown. */
  row: number;
  /** How many rows are shown. */
  count: number;
  columns: string[];
  values: Cells;
  maskAt: (column: number) => Mask | null;
  onMove: (row: number) => void;
}

/** One row, each column with its whole value. */
export function RowRecord({ isOpen, onClose, row, count, columns, values, maskAt, onMove }: Props) {
  const shown = columns.slice(0, MOST);
  return (
    <Dialog title={common.record.title(row + 1, count)} isOpen={isOpen} onClose={onClose}>
      <div className={styles.bar}>
        <Button onPress={() => onMove(row - 1)} isDisabled={row === 0}>
          {common.record.previous}
        </Button>
        <Button onPress={() => onMove(row + 1)} isDisabled={row >= count - 1}>
          {common.record.next}
        </Button>
        <Button onPress={onClose}>{common.record.close}</Button>
      </div>
      <dl className={styles.fields}>
        {shown.map((name, column) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: columns can have the same name
          <div key={column}>
            <dt>
              <MarkedText text={name} />
            </dt>
            <dd>
              <Field value={values[column] ?? null} mask={maskAt(column)} />
            </dd>
          </div>
        ))}
      </dl>
      {columns.length > MOST && <p className="secondary">{common.record.columns(MOST, columns.length)}</p>}
    </Dialog>
  );
}

function Field({ value, mask }: { value: string | null; mask: Mask | null }) {
  const json = value === null || mask ? null : indentedJson(value);
  return (
    <>
      {json === null ? (
        <span className={styles.value}>
          <Masked mask={mask}>
            <Value value={value} longest={LONGEST} />
          </Masked>
        </span>
      ) : (
        <Json value={json} />
      )}
      {mask && (
        <p className="secondary">
          <MarkedText text={common.maskedBy(mask.rule, mask.strategy, mask.info_types)} />
        </p>
      )}
    </>
  );
}
