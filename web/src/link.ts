// Linked axes: all show the same interval.

export interface Linked {
  /** Shows this interval of the axis. */
  show(from: number, to: number): void;
}

/** An axis that several charts share. */
export class Axis {
  private readonly charts: Linked[] = [];
  private readonly listeners: ((from: number, to: number) => void)[] = [];
  from: number;
  to: number;

  constructor(
    readonly name: string,
    readonly least: number,
    readonly most: number,
  ) {
    this.from = least;
    this.to = most;
  }

  add(chart: Linked): void {
    this.charts.push(chart);
  }

  onChange(changed: (from: number, to: number) => void): void {
    this.listeners.push(changed);
  }

  get zoomed(): boolean {
    return this.from > this.least || this.to < this.most;
  }

  /** Shows from…to, limited to the data. */
  set(from: number, to: number): void {
    const whole = this.most - this.least;
    const width = Math.min(whole, Math.max(to - from, whole / 5000));
    const begin = Math.min(Math.max(from, this.least), this.most - width);
    if (begin === this.from && begin + width === this.to) return;
    this.from = begin;
    this.to = begin + width;
    for (const chart of this.charts) chart.show(this.from, this.to);
    for (const changed of this.listeners) changed(this.from, this.to);
  }

  whole(): void {
    this.set(this.least, this.most);
  }

  /** Zooms by a factor below or above 1, around a fixed point. */
  zoom(factor: number, around = (this.from + this.to) / 2): void {
    this.set(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }

  /** Moves by a fraction of the interval. */
  move(share: number): void {
    const by = (this.to - this.from) * share;
    this.set(this.from + by, this.to + by);
  }
}
