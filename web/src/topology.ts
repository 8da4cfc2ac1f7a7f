// The picture of a network. The program that made the page computed every position.

import type { TopologyData } from "./document";
import { el } from "./dom";

function svg(name: string, properties: Record<string, string>, ...children: (Node | string)[]): SVGElement {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(properties)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** The class of a load, which determines the colour of a link. */
function level(load: number | null): string {
  if (load === null) return "unknown";
  if (load < 0.5) return "low";
  return load < 0.9 ? "middle" : "high";
}

const LEVELS: [name: string, text: string][] = [
  ["low", "below 50 %"],
  ["middle", "50 to 90 %"],
  ["high", "from 90 %"],
];

export function topology(data: TopologyData, several: string | null): HTMLElement {
  const links = data.links.map((link) => {
    const [x, y, angle] = link.arrow;
    const width = 1.5 + 4.5 * Math.min(1, link.load ?? 0.1);
    return svg(
      "g", { class: `link ${level(link.load)}` },
      svg("title", {}, link.about),
      svg("path", { d: link.curve, "stroke-width": width.toFixed(1) }),
      svg("path", { class: "arrow", d: "M-5 -5L7 0L-5 5Z", transform: `translate(${x} ${y}) rotate(${angle}) scale(${(0.8 + width / 8).toFixed(2)})` }),
    );
  });
  const texts = data.texts.map((text) => {
    const words = text.parts.map(([part, path]) => svg("tspan", { "data-path": path }, part));
    const [left, width] = text.box;
    const ground = svg("rect", { x: String(left), y: String(text.y - 11), width: String(width), height: "14", rx: "3" });
    return svg("g", {}, ground, svg("text", { x: String(text.x), y: String(text.y), "text-anchor": text.anchor, "xml:space": "preserve" }, ...words));
  });
  const nodes = data.nodes.map(([x, y]) => svg("circle", { cx: String(x), cy: String(y), r: "6" }));
  const label = several === null ? "Network" : `Network: ${several}`;
  const picture = svg(
    "svg",
    {
      role: "img", "aria-label": `${label}. ${data.links.map((link) => link.about).join(" ")}`,
      viewBox: `0 0 ${data.width} ${data.height}`,
      style: `width: min(100%, ${data.width}px); min-width: ${Math.round(0.9 * data.width)}px`,
    },
    ...links, ...nodes, ...texts,
  );
  const known = data.links.some((link) => link.load !== null);
  const key = known && el(
    "p", { class: "loads" },
    ...LEVELS.map(([name, text]) => el("span", { class: name }, text)),
  );
  return el(
    "figure", { class: "topology" },
    several !== null && el("h3", {}, several),
    el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": label }, picture as unknown as Node),
    key,
    el("figcaption", {}, data.about),
  );
}
