// Edits of a scenario's text that keep its comments and its layout. The engine checks the result;
// these functions need not understand all of TOML.

interface Line {
  /** Name of the section that the line opens, and whether it is an array of tables. */
  opens?: { name: string; list: boolean };
  key?: string;
  /** Number of lines of the value. */
  span: number;
}

/** Removes strings and a comment, so that brackets can be counted. */
function bare(line: string): string {
  return line.replace(/"(?:\\.|[^"\\])*"|'[^']*'/g, "_").replace(/#.*/, "");
}

function scan(lines: string[]): Line[] {
  const out: Line[] = [];
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i] ?? "";
    const head = /^\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$/.exec(line);
    const key = /^\s*([A-Za-z0-9_."-]+)\s*=/.exec(line)?.[1];
    let span = 1;
    if (head) {
      out.push({ opens: { name: head[2] ?? "", list: head[1] === "[[" }, span });
      continue;
    }
    if (key !== undefined) {
      let open = 0;
      for (let j = i; j < lines.length; j++) {
        const text = bare(lines[j] ?? "");
        open += (text.match(/[[{]/g) ?? []).length - (text.match(/[\]}]/g) ?? []).length;
        span = j - i + 1;
        if (open <= 0) break;
      }
      out.push({ key: key.replaceAll('"', ""), span });
      for (let n = 1; n < span; n++) out.push({ span: 1 });
      i += span - 1;
      continue;
    }
    out.push({ span });
  }
  return out;
}

interface Place {
  /** First and last line after the header of the section; -1 if there is no such section. */
  from: number;
  to: number;
}

/** Finds the `index`th section of this name; the top level has no name. */
function find(scanned: Line[], section: string, index: number): Place {
  let seen = -1;
  let from = section === "" ? 0 : -1;
  for (const [i, line] of scanned.entries()) {
    if (!line.opens) continue;
    if (from >= 0) return { from, to: i };
    if (line.opens.name === section && ++seen === index) from = i + 1;
  }
  return { from, to: scanned.length };
}

/** Sets `key` of a section to a value in TOML; null removes it. */
export function setKey(text: string, section: string, index: number, key: string, value: string | null): string {
  const lines = text.split("\n");
  const scanned = scan(lines);
  const { from, to } = find(scanned, section, index);
  if (from < 0) {
    if (value === null) return text;
    const gap = text.trimEnd() === "" ? "" : `${text.trimEnd()}\n\n`;
    return `${gap}[${section}]\n${key} = ${value}\n`;
  }
  for (let i = from; i < to; i++) {
    const line = scanned[i];
    if (line?.key !== key) continue;
    if (value === null) {
      lines.splice(i, line.span);
    } else {
      const old = lines[i] ?? "";
      const start = /^\s*[A-Za-z0-9_."-]+\s*=\s*/.exec(old)?.[0] ?? `${key} = `;
      const comment = line.span === 1 ? /\s+#[^"']*$/.exec(old)?.[0] ?? "" : "";
      lines.splice(i, line.span, `${start}${value}${comment}`);
    }
    return lines.join("\n");
  }
  if (value === null) return text;
  let at = to;
  while (at > from && (lines[at - 1] ?? "").trim() === "") at--;
  lines.splice(at, 0, `${key} = ${value}`);
  return lines.join("\n");
}

/** Appends an array of tables with these keys. */
export function addTable(text: string, section: string, keys: Record<string, string>): string {
  const body = Object.entries(keys).map(([key, value]) => `${key} = ${value}`);
  return `${text.trimEnd()}\n\n[[${section}]]\n${body.join("\n")}\n`;
}

/** Removes the `index`th section of this name. */
export function removeTable(text: string, section: string, index: number): string {
  const lines = text.split("\n");
  const { from, to } = find(scan(lines), section, index);
  if (from < 1) return text;
  lines.splice(from - 1, to - from + 1);
  return lines.join("\n");
}

/** A value in TOML. */
export function quote(value: string): string {
  return JSON.stringify(value);
}

/** A value of a generated control: a number, a switch, a list and a table as they are, else text. */
export function written(value: string): string {
  const text = value.trim();
  return /^(?:true|false|[-+]?\d+(?:\.\d+)?|[[{].*[\]}])$/s.test(text) ? text : quote(text);
}
