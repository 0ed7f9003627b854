import { Copy } from "../../parts/copy";
import { ShownOnce } from "../../parts/dialog";
import { text } from "./messages";

export function RecoveryCodes({ codes, onClose }: { codes: string[]; onClose: () => void }) {
  return (
    <ShownOnce title={text.recoveryTitle} isOpen={codes.length > 0} onClose={onClose}>
      <p>{text.recoveryHint}</p>
      <Copy label={text.recoveryCodes} text={codes.join("\n")} />
    </ShownOnce>
  );
}
