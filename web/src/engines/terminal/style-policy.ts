// The terminal makes style elements, and writes style attributes on spans (for colours of 24 bits). The page's policy
// allows the first only with its nonce, and the second only as properties.

let isDone = false;

/** Let style elements that scripts create have the nonce, and style attributes of spans become properties. */
export function keepToStylePolicy(nonce: string): void {
  if (isDone) return;
  isDone = true;
  const create = document.createElement.bind(document);
  document.createElement = (name: string, options?: ElementCreationOptions): HTMLElement => {
    const element = create(name, options);
    if (element instanceof HTMLStyleElement) element.nonce = nonce;
    return element;
  };
  HTMLSpanElement.prototype.setAttribute = function (this: HTMLSpanElement, name: string, value: string): void {
    if (name === "style") this.style.cssText = value;
    else Element.prototype.setAttribute.call(this, name, value);
  };
}
