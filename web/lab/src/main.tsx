// Start of the page: the shipped scenarios, and the set-up of the address.

import "uplot/dist/uPlot.min.css";
import "./lab.css";
import { render } from "preact";
import { asset, root } from "./assets";
import { App, DAMAGED, type Shipped } from "./app";
import { fromHash, type Shared } from "./share";

const FIRST = "first/cubic.toml";

async function start(): Promise<void> {
  const element = root();
  if (!element) return;
  try {
    const shipped = (await (await fetch(asset("scenarios.json"))).json()) as Shipped;
    const hash = element.dataset["shared"] ?? location.hash;
    const shared = await fromHash(hash).catch(() => null);
    const first: Shared = shared ?? { text: shipped.scenarios[FIRST] ?? "" };
    render(<App shipped={shipped} first={first} notice={shared === null && hash !== "" ? DAMAGED : ""} />, element);
  } catch (error) {
    element.textContent = `The lab cannot start: ${String(error)}`;
  }
}

void start();
