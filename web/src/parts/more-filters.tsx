import { type ReactNode, Suspense, useState } from "react";
import { common } from "../messages/common";
import { Button } from "./button";

/** The button for the filters that a list has no room for. Their dialog is loaded when it opens. */
export function MoreFilters({ children }: { children: (close: () => void) => ReactNode }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button onPress={() => setOpen(true)}>{common.moreFilters}</Button>
      {isOpen && <Suspense fallback={null}>{children(() => setOpen(false))}</Suspense>}
    </>
  );
}
