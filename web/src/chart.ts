// One picture: a uPlot chart with its title, its legend with values, keyboard and touch controls.

import uPlot from "uplot";
import type { LineData, PictureData } from "./document";
import { el, newId } from "./dom";
import type { Axis, Linked } from "./link";
import { colourOf, dashOf, onTheme, palette } from "./theme";

/** Charts of one kind in all runs: their y axes are the same. */
export class Group {
  readonly charts: Chart[] = [];

  top(from: number, to: number): number {
    return Math.max(...this.charts.map((chart) => chart.most(from, to)));
  }
}

interface Options {
  picture: PictureData;
  xs: number[][];
  axis: Axis;
  group: Group;
  /** The name of the run, if the page has several runs. */
  of?: string;
  /** Names of the whole numbers of the y axis. */
  lanes?: string[];
  height?: number;
}

const HEIGHT = 200;
const LEFT = 58;

/** Announces the values at the cursor to screen readers. */
const spoken = el("div", { class: "unseen", "aria-live": "polite" });
document.body.append(spoken);

/** Five significant digits, without an exponent. */
export function shown(value: number): string {
  return String(Number(value.toPrecision(value >= 10000 ? 6 : 4)));
}

/** The index of a line's colour: that of its flow or of its queue; null for lines in black or grey. */
function colourIndex(line: LineData): number | null {
  return line.flow ?? line.queue ?? null;
}

export class Chart implements Linked {
  readonly root: HTMLElement;
  private readonly plot: HTMLElement;
  private readonly lines: LineData[];
  private readonly xs: number[][];
  private readonly values: HTMLElement[] = [];
  private readonly swatches: HTMLCanvasElement[] = [];
  private readonly at: HTMLElement;
  private readonly unit: string;
  private u: uPlot;
  private hidden = new Set<number>();

  constructor(private readonly options: Options) {
    const { picture, of, group, axis } = options;
    this.lines = picture.lines;
    this.xs = picture.lines.map((line) => options.xs[line.x] ?? []);
    this.unit = /\(([^)]+)\)/.exec(picture.x)?.[1] ?? "";
    const heading = newId();
    const about = newId();
    this.at = el("span", { class: "at" });
    this.plot = el("div", {
      class: "plot",
      tabindex: "0",
      role: "application",
      "aria-roledescription": "chart",
      "aria-labelledby": heading,
      "aria-describedby": about,
      keydown: (event) => this.onKey(event as KeyboardEvent),
    });
    this.root = el(
      "figure",
      { class: "chart", "data-key": picture.key },
      el("h3", { id: heading }, of === undefined ? picture.title : `${picture.title}: ${of}`),
      this.plot,
      el("div", { class: "legend" }, this.at, ...this.lines.map((_, i) => this.entry(i))),
      el("figcaption", { id: about }, picture.about),
    );
    group.charts.push(this);
    axis.add(this);
    this.u = this.draw();
    new ResizeObserver(() => this.resize()).observe(this.plot);
    onTheme(() => this.again());
    this.fingers();
  }

  /** The greatest value between two x. */
  most(from: number, to: number): number {
    let most = 0;
    this.lines.forEach((line, i) => {
      if (this.hidden.has(i)) return;
      const xs = this.xs[i] ?? [];
      for (let at = 0; at < xs.length; at += 1) {
        const x = xs[at] ?? 0;
        const y = line.y[at];
        if (x >= from && x <= to && y !== null && y !== undefined && y > most) most = y;
      }
    });
    return most;
  }

  show(from: number, to: number): void {
    this.u.setScale("x", { min: from, max: to });
  }

  private others(upto: number): number {
    return this.lines.slice(0, upto).filter((line) => colourIndex(line) === null && line.style !== "points").length;
  }

  private colour(i: number): string {
    const line = this.lines[i];
    if (line === undefined || (line.style === "points" && line.flow === null)) return palette().points;
    return colourOf(colourIndex(line), this.others(i));
  }

  private entry(i: number): HTMLElement {
    const line = this.lines[i];
    const swatch = el("canvas", { width: "48", height: "20", "aria-hidden": "true" });
    const value = el("span", { class: "value" });
    this.swatches[i] = swatch;
    this.values[i] = value;
    return el(
      "button",
      {
        type: "button",
        "aria-pressed": "true",
        title: "show or hide",
        click: (event) => {
          if (this.hidden.has(i)) this.hidden.delete(i);
          else this.hidden.add(i);
          (event.currentTarget as HTMLElement).setAttribute("aria-pressed", String(!this.hidden.has(i)));
          this.u.setSeries(this.place(i), { show: !this.hidden.has(i) });
        },
      },
      swatch,
      ` ${line?.label ?? ""} `,
      value,
    );
  }

  /** Lines with the same x are one table; uPlot aligns the tables, so its order is not ours. */
  private order(): number[] {
    const byX = new Map<number, number[]>();
    this.lines.forEach((line, i) => byX.set(line.x, [...(byX.get(line.x) ?? []), i]));
    return [...byX.values()].flat();
  }

  private place(i: number): number {
    return this.order().indexOf(i) + 1;
  }

  private data(): uPlot.AlignedData {
    const tables = new Map<number, (number | null)[][]>();
    for (const i of this.order()) {
      const line = this.lines[i];
      if (line === undefined) continue;
      tables.set(line.x, [...(tables.get(line.x) ?? []), line.y]);
    }
    const full = [...tables].map(([x, ys]) => [this.options.xs[x] ?? [], ...ys] as uPlot.AlignedData);
    return full.length > 1 ? uPlot.join(full) : (full[0] ?? [[]]);
  }

  private draw(): uPlot {
    const { picture, axis, group, lanes } = this.options;
    const { text, grid } = palette();
    const font = "12px system-ui, sans-serif";
    const shared = { stroke: text, font, labelFont: font, labelSize: 18, labelGap: 2, ticks: { stroke: grid }, grid: { stroke: grid, width: 1 } };
    const series: uPlot.Series[] = [{}];
    for (const i of this.order()) {
      const line = this.lines[i];
      if (line === undefined) continue;
      const colour = this.colour(i);
      const points = line.style === "points";
      series.push({
        label: line.label,
        show: !this.hidden.has(i),
        stroke: colour,
        width: line.style === "line" ? 1.6 : 1.1,
        dash: dashOf(colourIndex(line), line.style, this.others(i)),
        points: points ? { show: true, size: lanes ? 6 : 3, width: 1, stroke: colour, fill: colour } : { show: false },
        ...(points ? { paths: () => null } : {}),
      });
    }
    const u = new uPlot(
      {
        width: this.plot.clientWidth || 600,
        height: this.options.height ?? HEIGHT,
        padding: [8, 12, 0, 0],
        legend: { show: false },
        cursor: {
          sync: { key: axis.name, setSeries: false, scales: ["x", null] },
          drag: { x: true, y: false, setScale: false },
          points: { size: 6 },
          bind: {
            dblclick: () => () => {
              axis.whole();
              return null;
            },
          },
        },
        scales: {
          x: { time: false, range: () => [axis.from, axis.to] },
          y: { range: () => (lanes ? [-0.6, lanes.length - 0.4] : [0, (group.top(axis.from, axis.to) || 1) * 1.05]) },
        },
        axes: [
          { ...shared, label: picture.x, size: 30 },
          {
            ...shared,
            label: picture.y,
            size: lanes ? Math.max(LEFT, 8 * Math.max(...lanes.map((lane) => lane.length))) : LEFT,
            ...(lanes ? { splits: () => lanes.map((_, lane) => lane), values: () => lanes } : {}),
          },
        ],
        series,
        hooks: {
          // The visible range, for programs that read the page.
          setScale: [
            (chart, key) => {
              const { min, max } = chart.scales[key] ?? {};
              this.root.dataset[key] = `${min ?? ""} ${max ?? ""}`;
            },
          ],
          setSelect: [
            (chart) => {
              const { left, width } = chart.select;
              if (width < 4) return;
              axis.set(chart.posToVal(left, "x"), chart.posToVal(left + width, "x"));
              chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            },
          ],
          setCursor: [(chart) => this.tell(chart.cursor.left ?? -1)],
        },
      },
      this.data(),
      this.plot,
    );
    u.root.setAttribute("aria-hidden", "true");
    this.lines.forEach((_, i) => this.swatch(i));
    return u;
  }

  private swatch(i: number): void {
    const canvas = this.swatches[i];
    const line = this.lines[i];
    const pen = canvas?.getContext("2d");
    if (canvas === undefined || line === undefined || !pen) return;
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.strokeStyle = pen.fillStyle = this.colour(i);
    if (line.style === "points") {
      pen.beginPath();
      pen.arc(24, 10, 5, 0, 2 * Math.PI);
      pen.fill();
      return;
    }
    pen.lineWidth = line.style === "line" ? 4 : 3;
    pen.setLineDash(dashOf(colourIndex(line), line.style, this.others(i)).map((part) => 2 * part));
    pen.beginPath();
    pen.moveTo(0, 10);
    pen.lineTo(48, 10);
    pen.stroke();
  }

  private again(): void {
    this.u.destroy();
    this.u = this.draw();
  }

  private resize(): void {
    const width = this.plot.clientWidth;
    if (width > 0 && width !== this.u.width) this.u.setSize({ width, height: this.options.height ?? HEIGHT });
  }

  /** The index of the sample of a line that is nearest to x; nothing outside of the line. */
  private nearest(i: number, x: number): number | null {
    const xs = this.xs[i] ?? [];
    let low = 0;
    let high = xs.length - 1;
    if (high < 0) return null;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((xs[middle] ?? 0) < x) low = middle + 1;
      else high = middle;
    }
    const at = low > 0 && x - (xs[low - 1] ?? 0) < (xs[low] ?? 0) - x ? low - 1 : low;
    const far = (this.options.axis.to - this.options.axis.from) / 50;
    return Math.abs((xs[at] ?? 0) - x) <= far ? at : null;
  }

  /** Values at the cursor, in the legend. */
  private tell(left: number): void {
    const x = left < 0 ? null : this.u.posToVal(left, "x");
    this.at.textContent = x === null ? "" : `${shown(x)} ${this.unit}`;
    this.lines.forEach((line, i) => {
      const place = x === null ? null : this.nearest(i, x);
      const y = place === null ? null : line.y[place];
      const value = this.values[i];
      if (value !== undefined) value.textContent = y === null || y === undefined || this.options.lanes ? "" : shown(y);
    });
  }

  private moveTo(x: number): void {
    this.u.setCursor({ left: this.u.valToPos(x, "x"), top: (this.options.height ?? HEIGHT) / 3 }, true);
    const told = this.lines.map((line, i) => `${line.label} ${this.values[i]?.textContent ?? ""}`).filter((part) => /\d$/.test(part));
    spoken.textContent = `${this.at.textContent}: ${told.join(", ")}`;
  }

  private onKey(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { axis } = this.options;
    const left = this.u.cursor.left ?? -1;
    const at = left >= 0 ? this.u.posToVal(left, "x") : (axis.from + axis.to) / 2;
    const step = (axis.to - axis.from) / 100;
    const keys: Record<string, () => void> = {
      ArrowLeft: () => (event.shiftKey ? axis.move(-0.25) : this.moveTo(Math.max(axis.from, at - step))),
      ArrowRight: () => (event.shiftKey ? axis.move(0.25) : this.moveTo(Math.min(axis.to, at + step))),
      "+": () => axis.zoom(0.5, at),
      "=": () => axis.zoom(0.5, at),
      "-": () => axis.zoom(2, at),
      "0": () => axis.whole(),
      Escape: () => axis.whole(),
      Home: () => this.moveTo(axis.from),
      End: () => this.moveTo(axis.to),
    };
    const act = keys[event.key];
    if (act === undefined) return;
    event.preventDefault();
    act();
  }

  /** One finger shows values, or moves a zoomed picture; two fingers zoom. */
  private fingers(): void {
    const { axis } = this.options;
    const down = new Map<number, number>();
    const toX = (clientX: number) => this.u.posToVal(clientX - this.u.over.getBoundingClientRect().left, "x");
    const width = () => this.u.over.clientWidth || 1;
    this.plot.addEventListener("pointerdown", (event) => {
      if (event.pointerType === "mouse") return;
      down.set(event.pointerId, event.clientX);
      if (down.size === 1) this.moveTo(toX(event.clientX));
    });
    this.plot.addEventListener("pointermove", (event) => {
      const before = down.get(event.pointerId);
      if (before === undefined) return;
      const other = [...down].find(([id]) => id !== event.pointerId)?.[1];
      if (other !== undefined) {
        const [was, is] = [Math.abs(before - other), Math.abs(event.clientX - other)];
        if (was > 8 && is > 8) axis.zoom(was / is, toX((event.clientX + other) / 2));
      } else if (axis.zoomed) {
        axis.move((before - event.clientX) / width());
      } else {
        this.moveTo(toX(event.clientX));
      }
      down.set(event.pointerId, event.clientX);
    });
    for (const end of ["pointerup", "pointercancel", "pointerleave"]) {
      this.plot.addEventListener(end, (event) => down.delete((event as PointerEvent).pointerId));
    }
  }
}
