// The addresses of the files of the lab. They are beside the page; a notebook names them in the
// attributes of the element `app`, because its page has no address.

const NAMES = { "worker.js": "worker", "engine.wasm": "engine", "scenarios.json": "scenarios" } as const;

/** The element of the page. */
export function root(): HTMLElement | null {
  return document.getElementById("app");
}

/** The address of a file of the lab. */
export function asset(name: keyof typeof NAMES): string {
  return root()?.dataset[NAMES[name]] ?? new URL(name, document.baseURI).href;
}

/** Whether the page is a widget of a notebook. */
export function embedded(): boolean {
  return root()?.dataset["shared"] !== undefined;
}

/** Stores a set-up: in the address of the page, or as the scenario of the widget. */
export function store(hash: string, text: string): void {
  if (embedded()) parent.postMessage({ narrowsScenario: text }, "*");
  else history.replaceState(null, "", hash);
}

/** Calls `heard` with each scenario that the notebook sets. */
export function onScenario(heard: (text: string) => void): () => void {
  const listen = ({ source, data }: MessageEvent): void => {
    const text: unknown = (data as { narrowsScenario?: unknown } | null)?.narrowsScenario;
    if (embedded() && source === parent && typeof text === "string") heard(text);
  };
  addEventListener("message", listen);
  return () => removeEventListener("message", listen);
}
