// The engine: commands and answers of the WebAssembly module.

import type { Section, Table } from "./protocol";

interface Exports {
  memory: WebAssembly.Memory;
  narrows_input(length: number): number;
  narrows_call(): number;
  narrows_output(): number;
}

export interface Answer {
  json: Section;
  tables: Record<string, Table>;
}

/** One instance of the engine. After a trap it is unusable, and the next call creates another. */
export class Engine {
  private exports: Exports | null = null;

  constructor(private readonly module: WebAssembly.Module) {}

  /** Size of the instance's memory in bytes. */
  get heap(): number {
    return this.exports?.memory.buffer.byteLength ?? 0;
  }

  call(command: object): Answer {
    const exports = (this.exports ??= new WebAssembly.Instance(this.module, {})
      .exports as unknown as Exports);
    try {
      return this.execute(exports, command);
    } catch (error) {
      this.exports = null;
      const reason = error instanceof WebAssembly.RuntimeError
        ? "The run needs more memory than the lab has, or the engine has a bug. "
          + "Try a shorter duration or fewer flows."
        : String(error);
      return { json: { error: reason }, tables: {} };
    }
  }

  private execute(exports: Exports, command: object): Answer {
    const input = new TextEncoder().encode(JSON.stringify(command));
    const at = exports.narrows_input(input.length);
    if (at === 0) return { json: { error: "The scenario and its files are too large." }, tables: {} };
    new Uint8Array(exports.memory.buffer, at, input.length).set(input);
    const length = exports.narrows_call();
    const start = exports.narrows_output();
    // A copy, because the next command overwrites the output.
    const output = exports.memory.buffer.slice(start, start + length);
    const size = new DataView(output).getUint32(0, true);
    const json = JSON.parse(new TextDecoder().decode(new Uint8Array(output, 4, size))) as Section;
    const tables: Record<string, Table> = {};
    let place = Math.ceil((4 + size) / 8) * 8;
    for (const head of json["columns"] as { table: string; name: string; rows: number }[]) {
      (tables[head.table] ??= {})[head.name] = new Float64Array(output, place, head.rows);
      place += head.rows * 8;
    }
    delete json["columns"];
    return { json, tables };
  }
}
