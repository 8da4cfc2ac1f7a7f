// A live chart: lines of a run, and dashed lines of the run that it is compared with.

import uPlot from "uplot";
import { colourOf, palette } from "../../src/theme";
import type { Line } from "./rows";

export interface Lines {
  lines: Line[];
  beside: Line[];
  duration_s: number;
}

/** One x axis for all lines: uPlot reads rows. */
function joined(lines: Line[]): uPlot.AlignedData {
  const tables = lines.map((line) => [line.x, line.y] as uPlot.AlignedData);
  return tables.length === 0 ? [[], []] : uPlot.join(tables);
}

export class Chart {
  private plot: uPlot | null = null;
  private shape = "";

  constructor(private readonly root: HTMLElement, private readonly unit: string,
    private readonly sync: uPlot.SyncPubSub, private readonly moved: (t: number | null) => void) {}

  draw({ lines, beside, duration_s }: Lines): void {
    const all = [...lines, ...beside];
    const width = Math.max(this.root.clientWidth, 200);
    const { grid, text, flows } = palette();
    const shape = JSON.stringify([lines.length, beside.length, duration_s, flows[0],
      all.map((line) => line.label)]);
    if (this.plot === null || shape !== this.shape) {
      this.plot?.destroy();
      this.shape = shape;
      const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
      this.plot = new uPlot({
        width, height: 150,
        legend: { show: false },
        cursor: { sync: { key: this.sync.key }, drag: { x: false, y: false }, points: { show: false } },
        scales: {
          x: { time: false, range: [0, duration_s] },
          y: { range: (_u, _low, high) => [0, high > 0 ? high * 1.08 : 1] },
        },
        axes: [
          { ...axis, size: 28, values: (_u, ticks) => ticks.map((t) => `${t} s`) },
          { ...axis, size: 62 },
        ],
        series: [{}, ...all.map((line, i) => ({
          label: line.label,
          stroke: colourOf(line.flow, i),
          width: i < lines.length ? 1.5 : 1,
          ...(i < lines.length ? {} : { dash: [4, 4] }),
          points: { show: false },
          spanGaps: false,
        }))],
        hooks: {
          setCursor: [(u) => {
            const left = u.cursor.left ?? -1;
            this.moved(left < 0 ? null : u.posToVal(left, "x"));
          }],
        },
      }, joined(all), this.root);
      this.plot.over.setAttribute("aria-hidden", "true");
    } else {
      if (this.plot.width !== width) this.plot.setSize({ width, height: 150 });
      this.plot.setData(joined(all));
    }
    this.root.dataset["lines"] = String(all.length);
    this.root.dataset["points"] = String(lines.reduce((n, line) => n + line.x.length, 0));
    this.root.setAttribute("aria-label", this.summary(lines));
  }

  /** The text of the chart for a screen reader. */
  private summary(lines: Line[]): string {
    const said = lines.slice(0, 6).map((line) => {
      const last = line.y.findLast((y) => y !== null);
      return last === undefined || last === null ? null : `${line.label} ${last.toPrecision(3)} ${this.unit}`;
    });
    return `Last values: ${said.filter((s) => s !== null).join(", ") || "none yet"}`;
  }

  destroy(): void {
    this.plot?.destroy();
    this.plot = null;
  }
}
