import type { components } from "../../api/schema";
import styles from "./me.module.css";
import { text } from "./messages";

/** A QR code, drawn here: its content is a secret that no other site may see. */
export function QrCode({ code: { size, path } }: { code: components["schemas"]["QrCodeAnswer"] }) {
  return (
    <svg className={styles.qr} viewBox={`0 0 ${size} ${size}`} role="img" aria-label={text.qr}>
      <path d={path} />
    </svg>
  );
}
