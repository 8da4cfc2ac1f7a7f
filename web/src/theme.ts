// Light, dark and paper. Charts are drawn on canvases, so their colours are here and not in the style sheet.

export interface Palette {
  flows: string[];
  /** Colours of lines of no flow, in order. */
  others: string[];
  points: string;
  text: string;
  grid: string;
}

// Distinguishable without red and green; flows differ in their dashes, too.
const LIGHT: Palette = {
  flows: ["#0072b2", "#d55e00", "#007a5a", "#b0488a", "#7a5c00", "#3d7fb8", "#6a3d9a", "#4d4d4d"],
  others: ["#1a1a1a", "#777777"],
  points: "#9a9a9a",
  text: "#444444",
  grid: "#e3e3e3",
};
const DARK: Palette = {
  flows: ["#56b4e9", "#f0a04b", "#3ecf9f", "#e08cc0", "#e3c84a", "#9ad0f5", "#bfa3e8", "#c4c4c4"],
  others: ["#f0f0f0", "#a0a0a0"],
  points: "#808080",
  text: "#c8c8c8",
  grid: "#333a42",
};
const PAPER: Palette = { ...LIGHT, flows: ["#000000", "#555555"], others: ["#000000", "#777777"], text: "#000000" };

const DASHES: number[][] = [[], [8, 3], [3, 2], [10, 3, 2, 3], [1, 2], [6, 2, 1, 2, 1, 2]];

const system = matchMedia("(prefers-color-scheme: dark)");
let chosen: "light" | "dark" | null = null;
let printing = false;
const listeners: (() => void)[] = [];

export function isDark(): boolean {
  return chosen === null ? system.matches : chosen === "dark";
}

export function palette(): Palette {
  return printing ? PAPER : isDark() ? DARK : LIGHT;
}

export function onTheme(changed: () => void): void {
  listeners.push(changed);
}

function tell(): void {
  document.documentElement.dataset["theme"] = isDark() ? "dark" : "light";
  for (const changed of listeners) changed();
}

export function toggleTheme(): void {
  chosen = isDark() ? "light" : "dark";
  tell();
}

/** A flow's colour. */
export function colourOf(flow: number | null, other: number): string {
  const { flows, others } = palette();
  return (flow === null ? others[other % others.length] : flows[flow % flows.length]) ?? "#000";
}

/** The dashes of a flow: none for the first eight in colour, one pattern per flow on paper. */
export function dashOf(flow: number | null, style: string, other: number): number[] {
  if (style === "dotted") return [2, 3];
  if (style === "dashed") return [5, 4];
  if (flow === null) return DASHES[(other >> 1) % DASHES.length] ?? [];
  return DASHES[(printing ? flow : Math.floor(flow / LIGHT.flows.length)) % DASHES.length] ?? [];
}

system.addEventListener("change", tell);
addEventListener("beforeprint", () => {
  printing = true;
  tell();
});
addEventListener("afterprint", () => {
  printing = false;
  tell();
});
tell();
