// Which columns of a list are shown: the address names them.

export interface ChoosableColumn {
  /** What names it in addresses and saved views. */
  name: string;
  /** Whether it is shown only where the user chose it. */
  isExtra?: boolean;
}

/** Return the columns that `names` has, such as "connection,status". The first one, which leads on, is always shown. */
export function chosenColumns<Column extends ChoosableColumn>(columns: readonly Column[], names?: string): Column[] {
  const chosen = new Set(names?.split(","));
  const isChosen = ({ name, isExtra }: Column) => (names === undefined ? !isExtra : chosen.has(name));
  return columns.filter((column, index) => index === 0 || isChosen(column));
}

/** Return the names of these columns for the address; undefined for those that are shown anyway. */
export function namesOfColumns(columns: readonly ChoosableColumn[], chosen: readonly string[]): string | undefined {
  const names = (some: readonly ChoosableColumn[]) => some.map(({ name }) => name).join(",");
  const wanted = names(columns.filter(({ name }, index) => index === 0 || chosen.includes(name)));
  return wanted === names(chosenColumns(columns)) ? undefined : wanted;
}
