import { useState } from "react";
import { FileTrigger } from "react-aria-components";
import { common } from "../messages/common";
import { Button } from "./button";
import styles from "./field.module.css";
import { MarkedText } from "./marked-text";

const LARGEST = 1_000_000; // bytes of a file whose text is sent in a request

interface Props {
  label: string;
  hint?: string | undefined;
  /** The text of the file; empty without one. */
  value: string;
  onChange: (content: string) => void;
}

/** A labelled choice of a file, of which the text is taken. Nothing is sent before the form is. */
export function FileField({ label, hint, value, onChange }: Props) {
  const [name, setName] = useState("");
  const [problem, setProblem] = useState("");
  const set = (name: string, content: string, problem = "") => {
    setName(name);
    setProblem(problem);
    onChange(content);
  };
  const take = async (file: File) => {
    if (file.size > LARGEST) return set("", "", common.fileTooLarge);
    try {
      set(file.name, new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer()));
    } catch {
      set("", "", common.notText);
    }
  };
  return (
    <fieldset className={styles.file}>
      <legend>{label}</legend>
      <div className="row">
        <FileTrigger
          onSelect={(files) => {
            const file = files?.[0];
            if (file) void take(file);
          }}
        >
          <Button>{common.chooseFile(label)}</Button>
        </FileTrigger>
        <span role="status" className="secondary">
          {value ? <MarkedText text={common.chosenFile(name, value.length)} /> : common.noFile}
        </span>
        {value && (
          <Button kind="quiet" aria-label={common.remove(name)} onPress={() => set("", "")}>
            ×
          </Button>
        )}
      </div>
      {hint !== undefined && <span className={styles.hint}>{hint}</span>}
      {problem && (
        <span role="alert" className={styles.error}>
          {problem}
        </span>
      )}
    </fieldset>
  );
}
