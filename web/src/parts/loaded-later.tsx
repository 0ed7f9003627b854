import { type ComponentType, useEffect, useState } from "react";
import { Skeleton } from "./table";

/** A component that is loaded when it is shown first. `known` is what was loaded. */
export interface LaterCode<Props> {
  load: () => Promise<ComponentType<Props>>;
  known?: ComponentType<Props>;
}

/**
 * Show a component once its code is loaded. Unlike `lazy` of React it is shown as soon as it is there: behind a
 * `Suspense` that shows a placeholder, React waits until that was there for 300 ms.
 */
export function LoadedLater<Props extends object>({ code, props }: { code: LaterCode<Props>; props: Props }) {
  const [Content, setContent] = useState(() => code.known);
  const [error, setError] = useState<Error | null>(null);
  useEffect(() => {
    if (Content !== undefined) return;
    code.load().then((loaded) => {
      code.known = loaded;
      setContent(() => loaded);
    }, setError);
  }, [code, Content]);
  if (error !== null) throw error; // as `lazy` does: the screen of errors says what failed
  return Content ? <Content {...props} /> : <Skeleton />;
}
