// Dropped, marked and lost packets: time, flow, reason and queueing delay.

import { Chart, Group } from "./chart";
import type { LineData, PictureData, RunData, VerdictData } from "./document";
import { el } from "./dom";
import type { Axis } from "./link";

const PAGE = 100;
const MOST_LANES = 24;
const WHY: Record<string, string> = {
  overflow: "queue full",
  law: "AQM",
  loss: "random loss",
  policer: "rate of the policer exceeded",
};

/** One lane per flow, with a point for each of its dropped, marked or lost packets. */
function lanes(verdicts: VerdictData, flows: number, xs: number[][]): { picture: PictureData; names: string[] } {
  const hit = [...new Set(verdicts.flow)].sort((a, b) => a - b).slice(0, MOST_LANES);
  const lines: LineData[] = [];
  for (const [lane, flow] of hit.entries()) {
    verdicts.verdict_names.forEach((name, verdict) => {
      const mine = verdicts.t_s.filter((_, i) => verdicts.flow[i] === flow && verdicts.verdict[i] === verdict);
      if (mine.length === 0) return;
      xs.push(mine);
      const label = `${verdicts.flow_names[flow] ?? flow} ${name} (${mine.length})`;
      // Points of different events are shifted, so that none hides another.
      const y = lane + (verdict - 1) * 0.22;
      lines.push({ label, flow: flow < flows ? flow : null, style: "points", x: xs.length - 1, y: mine.map(() => y) });
    });
  }
  const names = hit.map((flow) => verdicts.flow_names[flow] ?? String(flow));
  const about = "A point for each packet that was dropped, marked or lost, in the lane of its flow.";
  return { picture: { key: "verdicts", title: "Dropped, marked and lost packets", x: "time (s)", y: "flow", about, time: true, lines }, names };
}

export function verdictsOf(run: RunData, axis: Axis, several: boolean): HTMLElement {
  const { verdicts } = run;
  const title = several ? el("h3", {}, run.name) : null;
  if (verdicts === null) return el("div", {}, title, el("p", {}, "This run did not record dropped, marked and lost packets."));
  const count = verdicts.t_s.length;
  if (count === 0) return el("div", {}, title, el("p", {}, "No packet was dropped, marked or lost."));
  const { picture, names } = lanes(verdicts, run.flows.length, run.xs);
  const chart = new Chart({
    picture, xs: run.xs, axis, group: new Group(), lanes: names, height: 80 + 26 * names.length,
    ...(several ? { of: run.name } : {}),
  });

  const option = (value: string, text: string) => el("option", { value }, text);
  const flow = el("select", { change: () => fill(0) }, option("", "every flow"), ...names.map((n) => option(n, n)));
  const verdict = el(
    "select", { change: () => fill(0) },
    option("", "every event"), ...verdicts.verdict_names.map((n) => option(n, n)),
  );
  const said = el("p", { class: "said", role: "status" });
  const body = el("tbody");
  const before = el("button", { type: "button", click: () => fill(begin - PAGE) }, "◀ Before");
  const after = el("button", { type: "button", click: () => fill(begin + PAGE) }, "After ▶");
  let begin = 0;

  function fill(from: number): void {
    if (verdicts === null) return;
    const rows: number[] = [];
    for (let i = 0; i < count; i += 1) {
      const t = verdicts.t_s[i] ?? 0;
      if (t < axis.from || t > axis.to) continue;
      if (flow.value !== "" && verdicts.flow_names[verdicts.flow[i] ?? -1] !== flow.value) continue;
      if (verdict.value !== "" && verdicts.verdict_names[verdicts.verdict[i] ?? -1] !== verdict.value) continue;
      rows.push(i);
    }
    begin = Math.max(0, from < rows.length ? from : begin);
    if (begin >= rows.length) begin = 0;
    body.replaceChildren(
      ...rows.slice(begin, begin + PAGE).map((i) => {
        const waited = verdicts.waited_ms[i];
        const why = verdicts.why_names[verdicts.why[i] ?? -1] ?? "";
        return el(
          "tr", {},
          el("td", { class: "number" }, (verdicts.t_s[i] ?? 0).toFixed(6)),
          el("td", {}, verdicts.flow_names[verdicts.flow[i] ?? -1] ?? ""),
          el("td", {}, verdicts.verdict_names[verdicts.verdict[i] ?? -1] ?? ""),
          el("td", {}, WHY[why] ?? why),
          el("td", { class: "number" }, waited === null || waited === undefined ? "–" : waited.toFixed(3)),
        );
      }),
    );
    const last = Math.min(begin + PAGE, rows.length);
    const cut = verdicts.left_out > 0
      ? ` Only the first ${count} of ${count + verdicts.left_out} packets are on this page; later ones are omitted.`
      : "";
    said.textContent = `${rows.length === 0 ? "None" : `${begin + 1} to ${last}`} of ${rows.length} in this interval.${cut}`;
    before.disabled = begin === 0;
    after.disabled = last >= rows.length;
  }
  axis.onChange(() => fill(0));
  fill(0);

  const heads = ["time (s)", "flow", "event", "reason", "queueing delay (ms)"];
  return el(
    "div", {}, title, chart.root,
    el("div", { class: "controls" }, el("label", {}, "Flow ", flow), el("label", {}, "Event ", verdict), before, after),
    said,
    el(
      "div", { class: "wide tall", tabindex: "0", role: "region", "aria-label": `Packets: ${run.name}` },
      el("table", {}, el("thead", {}, el("tr", {}, ...heads.map((h) => el("th", { scope: "col" }, h)))), body),
    ),
  );
}
