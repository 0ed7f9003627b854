import type { components } from "../../api/schema";
import { Copy } from "../../parts/copy";
import { ShownOnce } from "../../parts/dialog";
import { MarkedText } from "../../parts/marked-text";
import { Time } from "../../parts/time";
import { text } from "./messages";

export type SetupLink = components["schemas"]["SetupLinkAnswer"];

/** A set-up link, to be sent to its owner. It is nowhere else. */
export function SetupLinkDialog({ link, onClose }: { link: SetupLink | null; onClose: () => void }) {
  return (
    <ShownOnce title={text.setupLinkTitle} isOpen={link !== null} onClose={onClose}>
      {link && (
        <>
          <p>
            <MarkedText text={text.setupLinkOf(link.email)} />
          </p>
          <Copy label={text.setupLinkTitle} text={link.url} />
          <p>
            {text.linkUntil}: <Time at={link.expires_at} />
          </p>
        </>
      )}
    </ShownOnce>
  );
}
