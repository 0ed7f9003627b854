import { common } from "../../messages/common";
import { Button } from "../../parts/button";
import { Dialog } from "../../parts/dialog";
import { Facts } from "../../parts/facts";
import { MarkedText } from "../../parts/marked-text";
import { text } from "./messages";

/** Show an address whole, as the browser would open it, before it opens. */
export function LinkDialog({ url, onClose }: { url: URL; onClose: () => void }) {
  const open = () => {
    window.open(url.href, "_blank", "noopener,noreferrer");
    onClose();
  };
  return (
    <Dialog title={text.link.title} isOpen onClose={onClose}>
      <p>{text.link.hint}</p>
      <Facts
        facts={[
          [text.link.host, <code key="host">{url.host}</code>],
          [text.link.address, <MarkedText key="address" text={url.href} />],
        ]}
      />
      <div className="row">
        <Button kind="primary" onPress={open}>
          {text.link.open}
        </Button>
        <Button onPress={onClose}>{common.cancel}</Button>
      </div>
    </Dialog>
  );
}
