import { text } from "./messages";

/** The address of a program; beside it that of this browser, if it is a different one. */
export function Address({ address, yours }: { address: string; yours: string }) {
  return (
    <>
      <strong className="mono">{address}</strong>
      {address !== yours && ` ${text.device.yours(yours)}`}
    </>
  );
}
