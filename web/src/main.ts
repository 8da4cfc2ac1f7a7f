// The page: the answer in words, tables, pictures, packets, the scenario and its provenance.

import "uplot/dist/uPlot.min.css";
import "./style.css";
import { Chart, Group, shown } from "./chart";
import { read, type BlockData, type DocumentData, type RunData, type TableData } from "./document";
import { el } from "./dom";
import { Axis } from "./link";
import { toggleTheme } from "./theme";
import { topology } from "./topology";
import { verdictsOf } from "./verdicts";

function table(data: TableData, several: string | null): HTMLElement {
  const head = [...data.words, ...data.numbers];
  const caption = several === null ? data.caption : `${data.caption}: ${several}`;
  return el(
    "div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    el(
      "table", {},
      el("caption", {}, caption),
      el(
        "thead", {},
        el("tr", {}, ...head.map((name, i) => (name === "" ? el("td") : el("th", { scope: "col", class: i >= data.words.length ? "number" : "" }, name)))),
      ),
      el(
        "tbody", {},
        ...data.rows.map((row) =>
          el(
            "tr", {},
            ...row.map(([text, path], i) =>
              i === 0
                ? el("th", { scope: "row", "data-path": path }, text)
                : el("td", { class: i >= data.words.length ? "number" : "", "data-path": path }, text),
            ),
          ),
        ),
      ),
    ),
  );
}

function copyable(title: string, text: string, file: string, about: string): HTMLElement {
  const said = el("span", { role: "status" });
  const pre = el("pre", { tabindex: "0", "aria-label": title }, text);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      said.textContent = "copied";
    } catch {
      // Browsers may forbid this for a page from a disk; the user can copy the selected text.
      const range = document.createRange();
      range.selectNodeContents(pre);
      getSelection()?.removeAllRanges();
      getSelection()?.addRange(range);
      said.textContent = "selected: press Ctrl+C";
    }
  };
  const href = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  return el(
    "details", { class: "file" },
    el("summary", {}, title),
    el("p", {}, about),
    el("p", {}, el("button", { type: "button", click: () => void copy() }, "Copy"), " ", el("a", { href, download: file }, `Save as ${file}`), " ", said),
    pre,
  );
}

function answer(page: DocumentData): HTMLElement {
  const several = page.runs.length > 1;
  return el(
    "section", { id: "answer" },
    el("h2", {}, "Answer"),
    page.first !== "" && el("p", { class: "first" }, page.first),
    el(
      "div", { class: "columns" },
      ...page.runs.map((run) =>
        el(
          "div", {},
          several && el("h3", {}, run.name),
          ...run.answer.map((text, i) => el("p", { class: i === 0 && !several ? "first" : "" }, text)),
          el("h3", {}, several ? `Evidence for ${run.name}` : "Evidence"),
          el("ul", { class: "sure" }, ...run.sure.map((text) => el("li", {}, text))),
        ),
      ),
    ),
  );
}

function summary(page: DocumentData): HTMLElement {
  const several = page.runs.length > 1;
  return el(
    "section", { id: "summary" },
    el("h2", {}, "Summary"),
    ...page.runs.map((run) =>
      el("div", {}, ...run.tables.map((data) => table(data, several ? run.name : null)), ...run.notes.map((text) => el("p", {}, text))),
    ),
  );
}

/** The networks of the runs; equal ones of several runs are shown for each run, with its loads. */
function network(page: DocumentData): HTMLElement | null {
  const several = page.runs.length > 1;
  const shown = page.runs.filter((run) => run.topology !== null);
  if (shown.length === 0) return null;
  return el(
    "section", { id: "network" },
    el("h2", {}, "Network"),
    el("div", { class: "columns" }, ...shown.map((run) => run.topology && topology(run.topology, several ? run.name : null))),
  );
}

/** The buttons of a linked axis, for users without mouse and keyboard. */
function toolbar(axis: Axis): HTMLElement {
  const window_ = el("span", { class: "window", role: "status" });
  const tell = () => {
    window_.textContent = `${shown(axis.from)} to ${shown(axis.to)} s`;
  };
  axis.onChange(tell);
  tell();
  const button = (text: string, label: string, click: () => void) => el("button", { type: "button", "aria-label": label, title: label, click }, text);
  return el(
    "div", { class: "toolbar", role: "toolbar", "aria-label": "Time interval of the pictures" },
    button("◀", "earlier", () => axis.move(-0.5)),
    button("−", "zoom out", () => axis.zoom(2)),
    button("+", "zoom in", () => axis.zoom(0.5)),
    button("▶", "later", () => axis.move(0.5)),
    button("whole run", "whole run", () => axis.whole()),
    window_,
  );
}

interface Axes {
  time: Axis;
  others: Map<string, Axis>;
  groups: Map<string, Group>;
}

function furthest(runs: RunData[], wanted: (key: string, time: boolean) => boolean): number {
  const ends = runs.flatMap((run) =>
    run.pictures
      .filter((picture) => wanted(picture.key, picture.time))
      .flatMap((picture) => picture.lines.map((line) => run.xs[line.x]?.at(-1) ?? 0)),
  );
  return Math.max(...ends, 0) || 1;
}

function chartOf(page: DocumentData, run: RunData, key: string, axes: Axes): Chart | null {
  const picture = run.pictures.find((one) => one.key === key);
  if (picture === undefined) return null;
  let axis = axes.time;
  if (!picture.time) {
    axis = axes.others.get(key) ?? new Axis(key, 0, furthest(page.runs, (other) => other === key));
    axes.others.set(key, axis);
  }
  const group = axes.groups.get(key) ?? new Group();
  axes.groups.set(key, group);
  return new Chart({ picture, xs: run.xs, axis, group, ...(page.runs.length > 1 ? { of: run.name } : {}) });
}

const HOW =
  "Drag across a picture to zoom; double-click to reset. On a touch screen, drag and pinch. Keys: arrows move the cursor " +
  "that shows values, + and − zoom, Shift with arrows moves, 0 resets. A click on a name in a legend hides its line.";

function pictures(page: DocumentData, axes: Axes): HTMLElement {
  const keys = [...new Set(page.runs.flatMap((run) => run.pictures.map((picture) => picture.key)))];
  return el(
    "section", { id: "pictures" },
    el("h2", {}, "Pictures"),
    el("p", { class: "how" }, HOW),
    toolbar(axes.time),
    ...keys.map((key) =>
      el("div", { class: "columns" }, ...page.runs.map((run) => chartOf(page, run, key, axes)?.root ?? el("div"))),
    ),
  );
}

function lesson(page: DocumentData, text: string[], blocks: BlockData[]): HTMLElement {
  return el(
    "section", { id: "lesson" },
    ...text.map((part, i) => el("p", { class: i === 0 ? "first" : "" }, part)),
    ...blocks.map((block) => {
      const charts = block.show.map((show) => {
        const run = page.runs[show.run];
        const picture = run?.pictures.find((one) => one.key === show.key);
        if (run === undefined || picture === undefined) return null;
        // Pictures of a lesson show different times, so each has its own axes.
        const whole = furthest(page.runs, (key, time) => (picture.time ? time : key === show.key));
        const axis = new Axis(`${block.heading}${show.run}${show.key}`, 0, whole);
        const chart = new Chart({ picture, xs: run.xs, axis, group: new Group(), ...(page.runs.length > 1 ? { of: run.name } : {}) });
        axis.set(show.from ?? 0, show.to ?? whole);
        return chart.root;
      });
      return el(
        "section", { class: "block" },
        el("h2", {}, block.heading),
        ...block.text.map((part) => el("p", {}, part)),
        charts.length > 0 && el("div", { class: "columns" }, ...charts),
      );
    }),
  );
}

function packets(page: DocumentData, axis: Axis): HTMLElement {
  return el(
    "section", { id: "packets" },
    el("h2", {}, "Packets"),
    el("p", {}, "Each packet that was dropped, marked or lost in the time interval of the pictures."),
    ...page.runs.map((run) => verdictsOf(run, axis, page.runs.length > 1)),
  );
}

function scenarios(page: DocumentData): HTMLElement {
  const several = page.runs.length > 1;
  return el(
    "section", { id: "scenario" },
    el("h2", {}, "Scenario"),
    ...page.runs.map((run) =>
      el(
        "div", {},
        several && el("h3", {}, run.name),
        el("p", {}, "To repeat the run, save the scenario as scenario.toml, then run ", el("code", {}, run.command)),
        copyable(several ? `As specified: ${run.name}` : "As specified", run.toml, "scenario.toml", "Missing keys have the defaults of this version."),
        copyable(several ? `With every default: ${run.name}` : "With every default", run.canonical, "scenario.toml", "All defaults and the seed are included. Later versions repeat the run unless their results change."),
      ),
    ),
  );
}

function provenance(page: DocumentData): HTMLElement {
  const several = page.runs.length > 1;
  return el(
    "section", { id: "evidence" },
    el("h2", {}, "Provenance"),
    ...page.runs.map((run) =>
      el(
        "div", {},
        several && el("h3", {}, run.name),
        run.evidence && table(run.evidence, several ? run.name : null),
        run.evidence && el("p", {}, "The distance is the sum of the logarithms of the ratios of rate, RTT, buffer or burst of a policer, and random loss. 0 is the same case; 0.69 is a factor of two in one of them."),
        el("dl", {}, ...run.provenance.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
      ),
    ),
  );
}

function show(page: DocumentData): void {
  document.title = page.title;
  const axes: Axes = { time: new Axis("time", 0, furthest(page.runs, (_, time) => time)), others: new Map(), groups: new Map() };
  const parts: [string, string, HTMLElement][] = [
    ["answer", "Answer", answer(page)],
    ["summary", "Summary", summary(page)],
    ["pictures", "Pictures", pictures(page, axes)],
    ["packets", "Packets", packets(page, axes.time)],
    ["scenario", "Scenario", scenarios(page)],
    ["evidence", "Provenance", provenance(page)],
  ];
  const net = network(page);
  if (net !== null) parts.splice(2, 0, ["network", "Network", net]);
  if (page.lesson !== undefined) {
    parts.unshift(["lesson", "Explained", lesson(page, page.lesson.text, page.lesson.blocks)]);
  }
  document.getElementById("page")?.append(
    el("a", { class: "skip", href: `#${parts[0]?.[0] ?? ""}` }, "Skip to the text"),
    el(
      "header", {},
      el("h1", {}, page.title),
      el(
        "nav", { "aria-label": "Parts of this page" },
        ...parts.map(([id, name]) => el("a", { href: `#${id}` }, name)),
        el("button", { type: "button", click: toggleTheme }, "Light or dark"),
      ),
    ),
    el("main", {}, ...parts.map(([, , part]) => part)),
    el("footer", {}, el("p", {}, `Made by narrows ${page.narrows}. This page loads no other file.`)),
  );
  const target = location.hash.slice(1);
  if (target !== "") document.getElementById(target)?.scrollIntoView();
}

const page = read();
if (page !== null) show(page);
