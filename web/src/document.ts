// The data of the page, as written by narrows/render/report.py, which computes every number.

/** Text, and the JSON path of its number in the run ("" for words). */
export type Cell = [text: string, path: string];

export interface TableData {
  caption: string;
  words: string[];
  numbers: string[];
  rows: Cell[][];
}

export type LineStyle = "line" | "dashed" | "dotted" | "points";

export interface LineData {
  label: string;
  /** The flow whose colour it has; null for lines of no flow. */
  flow: number | null;
  /** The queue whose colour it has, if it belongs to one of several queues. */
  queue?: number;
  style: LineStyle;
  /** An index into `RunData.xs`. */
  x: number;
  y: (number | null)[];
}

export interface PictureData {
  key: string;
  title: string;
  x: string;
  y: string;
  about: string;
  /** Is x time? Such axes are linked. */
  time: boolean;
  lines: LineData[];
}

/** Packets that were dropped, marked or lost; the columns of one table. */
export interface VerdictData {
  left_out: number;
  t_s: number[];
  flow: number[];
  flow_names: string[];
  verdict: number[];
  verdict_names: string[];
  why: number[];
  why_names: string[];
  waited_ms: (number | null)[];
}

/** A line of text in the picture of a network, with the place and width of its background. */
export interface TopologyTextData {
  x: number;
  y: number;
  anchor: string;
  box: [x: number, width: number];
  parts: Cell[];
}

/** A link: a path of SVG; place and angle of its arrow; its load from 0 to 1. */
export interface TopologyLinkData {
  name: string;
  curve: string;
  arrow: [x: number, y: number, angle: number];
  load: number | null;
  about: string;
}

export interface TopologyData {
  width: number;
  height: number;
  about: string;
  nodes: [x: number, y: number][];
  links: TopologyLinkData[];
  texts: TopologyTextData[];
}

export interface RunData {
  name: string;
  answer: string[];
  sure: string[];
  tables: TableData[];
  notes: string[];
  topology: TopologyData | null;
  pictures: PictureData[];
  xs: number[][];
  verdicts: VerdictData | null;
  flows: string[];
  toml: string;
  canonical: string;
  command: string;
  provenance: [string, string][];
  evidence: TableData | null;
  figures: unknown;
}

/** A part of a lesson: text and its pictures. */
export interface BlockData {
  heading: string;
  text: string[];
  show: { run: number; key: string; from?: number; to?: number }[];
}

export interface DocumentData {
  narrows: string;
  title: string;
  first: string;
  runs: RunData[];
  lesson?: { text: string[]; blocks: BlockData[] };
}

export function read(): DocumentData | null {
  return JSON.parse(document.getElementById("document")?.textContent ?? "null") as DocumentData | null;
}
