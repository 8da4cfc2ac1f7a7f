// A published map in a lesson: a table of cells, each of which opens as a run.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";

const tables = import.meta.glob<string>("../../../python/narrows/data/datta-fund-2023-*-4.15.csv",
  { query: "?raw", import: "default", eager: true });

export interface MapBlock {
  title: string;
  /** Settings of the block: the table and the columns that become pages, rows, columns and values. */
  settings: Record<string, string>;
  template: string;
}

/** Reads a block: `name = value` lines, an empty line, and the template of a scenario. */
export function mapBlock(title: string, body: string): MapBlock {
  const [head = "", ...rest] = body.split("\n\n");
  const settings: Record<string, string> = {};
  for (const line of head.split("\n")) {
    const [, name, value] = /^\s*(\w+)\s*=\s*(.*)$/.exec(line) ?? [];
    if (name !== undefined && value !== undefined) settings[name] = value.trim();
  }
  return { title, settings, template: `${rest.join("\n\n")}\n` };
}

type Row = Record<string, string>;

function rows(name: string): Row[] {
  const raw = Object.entries(tables).find(([file]) => file.endsWith(`/${name}`))?.[1] ?? "";
  const lines = raw.split(/\r?\n/).filter((line) => line !== "" && !line.startsWith("#"));
  const names = lines[0]?.split(",") ?? [];
  return lines.slice(1).map((line) =>
    Object.fromEntries(line.split(",").map((value, i) => [names[i] ?? "", value])));
}

function distinct(of: Row[], column: string): string[] {
  return [...new Set(of.map((row) => row[column] ?? ""))].sort((a, b) => Number(a) - Number(b));
}

/** The template with a cell's values. */
export function fill(template: string, values: Row): string {
  return template.replace(/\{(\w+)\}/g, (whole, name: string) => values[name] ?? whole);
}

/** A setting `column: label`. */
function named(setting = ""): { column: string; label: string } {
  const [column = "", label = column] = setting.split(/:\s*/);
  return { column, label };
}

/** The rows of a table. With a second table, the value becomes the gain over that of its row in %. */
function values(block: MapBlock, keys: string[]): Row[] {
  const { data = "", beside = "", value = "" } = block.settings;
  const first = rows(data);
  if (beside === "") return first;
  const at = (row: Row): string => keys.map((key) => row[key]).join("/");
  const others = new Map(rows(beside).map((row) => [at(row), Number(row[value])]));
  return first.map((row) => {
    const gain = 100 * (Number(row[value]) / (others.get(at(row)) ?? NaN) - 1);
    return { ...row, [value]: String(Math.round(gain) + 0) };
  });
}

/** Class of a cell by its value: five steps from a loss to a gain of the first variant. */
function step(value: number): string {
  if (value < -5) return "much-less";
  if (value < 0) return "less";
  if (value < 5) return "equal";
  return value < 25 ? "more" : "much-more";
}

interface Props {
  block: MapBlock;
  /** Runs a scenario, with another one pinned beside it. */
  load: (text: string, beside?: string) => void;
}

export function PublishedMap({ block, load }: Props): JSX.Element {
  const { value = "", variants = "" } = block.settings;
  const [pages, down, across] = [block.settings["pages"], block.settings["rows"], block.settings["columns"]].map(named) as
    [ReturnType<typeof named>, ReturnType<typeof named>, ReturnType<typeof named>];
  const all = useMemo(() => values(block, [pages.column, down.column, across.column]), [block]);
  const numbers = distinct(all, pages.column);
  const [page, setPage] = useState(numbers[0] ?? "");
  const [open, setOpen] = useState("");
  const [first, second] = variants.split(",").map((v) => v.trim());
  const cells = all.filter((row) => row[pages.column] === page);
  return (
    <figure class="map">
      <figcaption>{block.title}</figcaption>
      <label>{pages.label} <select value={page} onChange={(e) => setPage(e.currentTarget.value)}>
        {numbers.map((n) => <option key={n} value={n}>{n}</option>)}
      </select></label>
      <p class="hint">Rows: {down.label}. Columns: {across.label}.</p>
      <div class="scroll" tabIndex={0} role="region" aria-label={block.title}>
        <table>
          <thead>
            <tr><td />
              
{distinct(cells, across.column).map((x) => <th key={x} scope="col">{x}</th>)}</tr>
          </thead>
          <tbody>
            {distinct(cells, down.column).map((y) => (
              <tr key={y}>
                <th scope="row">{y}</th>
                {cells.filter((row) => row[down.column] === y)
                  .sort((a, b) => Number(a[across.column]) - Number(b[across.column]))
                  .map((row) => {
                    const key = `${page}/${y}/${row[across.column] ?? ""}`;
                    const text = (variant?: string): string => fill(block.template, { ...row, variant: variant ?? "" });
                    return (
                      <td key={key}>
                        <button type="button" class={`cell ${step(Number(row[value]))}`} aria-pressed={open === key}
                          aria-label={`${row[value] ?? ""}; ${down.label}: ${y}; ${across.label}: ${row[across.column] ?? ""}`}
                          title="Run this cell"
                          onClick={() => {
                            setOpen(key);
                            load(text(first), second === undefined ? undefined : text(second));
                          }}>{row[value]}</button>
                      </td>
                    );
                  })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </figure>
  );
}
