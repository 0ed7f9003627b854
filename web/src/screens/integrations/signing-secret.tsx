import { Copy } from "../../parts/copy";
import { ShownOnce } from "../../parts/dialog";
import { text } from "./messages";

/** The signing secret of a webhook, the only time that it is shown. */
export function SigningSecret({ secret, onClose }: { secret: string | null; onClose: () => void }) {
  return (
    <ShownOnce title={text.sink.secretTitle} isOpen={secret !== null} onClose={onClose}>
      <p>{text.sink.secretHint}</p>
      <Copy label={text.sink.secret} text={secret ?? ""} />
    </ShownOnce>
  );
}
