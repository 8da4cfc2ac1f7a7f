// Elements in one expression.

type Child = Node | string | null | undefined | false;
type Properties = Record<string, string | boolean | ((event: Event) => void)>;

/** An element; properties that are functions are listeners of the event of that name. */
export function el<K extends keyof HTMLElementTagNameMap>(
  name: K,
  properties: Properties = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (typeof value === "string") made.setAttribute(key, value);
    else if (value) made.setAttribute(key, "");
  }
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

let numbered = 0;

/** A unique id. */
export function newId(): string {
  numbered += 1;
  return `n${numbered}`;
}
