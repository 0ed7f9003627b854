import { useState } from "react";
import { Autocomplete, Input, Label, Menu, MenuItem, SearchField } from "react-aria-components";
import { Dialog } from "./dialog";
import styles from "./field.module.css";
import { MarkedText } from "./marked-text";

export interface Command {
  id: string;
  title: string;
  /** What kind of thing it is: a screen, a connection. */
  kind: string;
}

interface Props {
  title: string;
  label: string;
  none: string;
  onClose: () => void;
  onType: (words: string) => void;
  /** The commands for what is typed. */
  commandsFor: (words: string) => Command[];
  onChoose: (command: Command) => void;
}

/** A field and the commands that fit what is typed; arrow keys choose, Enter runs. */
export function Palette({ title, label, none, onClose, onType, commandsFor, onChoose }: Props) {
  const [words, setWords] = useState("");
  const commands = commandsFor(words);
  const type = (typed: string) => {
    setWords(typed);
    onType(typed);
  };
  return (
    <Dialog title={title} isOpen onClose={onClose}>
      <Autocomplete inputValue={words} onInputChange={type}>
        <SearchField className={`${styles.field} ${styles.whole}`} autoFocus>
          <Label className="visually-hidden">{label}</Label>
          <Input className={styles.input ?? ""} placeholder={label} />
        </SearchField>
        <Menu
          className={styles.commands ?? ""}
          aria-label={title}
          items={commands}
          onAction={(key) => {
            const command = commands.find(({ id }) => id === key);
            if (command) onChoose(command);
          }}
        >
          {(command) => (
            <MenuItem textValue={command.title}>
              <MarkedText text={command.title} /> <span className="secondary">{command.kind}</span>
            </MenuItem>
          )}
        </Menu>
        {commands.length === 0 && <p className="secondary">{none}</p>}
      </Autocomplete>
    </Dialog>
  );
}
