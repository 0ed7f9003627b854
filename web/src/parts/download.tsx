import { useState } from "react";
import { Button } from "./button";
import { Failure } from "./notice";

interface Props {
  label: string;
  /** The file's name, with its ending. */
  name: string;
  /** Its text; what takes long says how far it is by the label. */
  content: () => string | Promise<string>;
  isDisabled?: boolean;
}

const TYPES: Record<string, string> = { csv: "text/csv", json: "application/json", txt: "text/plain" };

/** A button that stores a text as a file. */
export function Download({ label, name, content, isDisabled = false }: Props) {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const save = async () => {
    setBusy(true);
    setError(null);
    try {
      saveFile(name, await content());
    } catch (failure) {
      setError(failure as Error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <Button onPress={() => void save()} isDisabled={isBusy || isDisabled}>
        {label}
      </Button>
      {error && <Failure error={error} />}
    </>
  );
}

function saveFile(name: string, content: string) {
  const type = TYPES[name.slice(name.lastIndexOf(".") + 1)] ?? "text/plain";
  const url = URL.createObjectURL(new Blob([content], { type: `${type};charset=utf-8` }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
