// A set-up in the address of the page, so that a link is an experiment.

export interface Shared {
  text: string;
  files?: Record<string, string>;
  /** The set-up that this one is compared with. */
  beside?: string;
  lesson?: string;
}

/** The longest decompressed set-up. */
const MOST = 2_000_000;

async function through(bytes: Uint8Array<ArrayBuffer>, by: GenericTransformStream): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([bytes]).stream().pipeThrough(by) as ReadableStream<Uint8Array>;
  const reader = stream.getReader();
  const parts: Uint8Array[] = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > MOST) throw new Error("The link holds too much data.");
    parts.push(value);
  }
  const out = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

export async function toHash(shared: Shared): Promise<string> {
  const bytes = new TextEncoder().encode(JSON.stringify(shared));
  const packed = await through(bytes, new CompressionStream("deflate-raw"));
  const binary = Array.from(packed, (byte) => String.fromCharCode(byte)).join("");
  return `#s=${btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

export async function fromHash(hash: string): Promise<Shared | null> {
  const packed = /^#s=([A-Za-z0-9_-]+)$/.exec(hash)?.[1];
  if (packed === undefined) return null;
  const binary = atob(packed.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (c) => c.charCodeAt(0));
  const json: unknown = JSON.parse(new TextDecoder().decode(
    await through(bytes, new DecompressionStream("deflate-raw"))));
  const shared = json as Partial<Shared>;
  return typeof shared.text === "string" ? (shared as Shared) : null;
}

/** Texts that can be undone and redone. */
export class History {
  private past: string[] = [];
  private future: string[] = [];

  constructor(public text: string) {}

  get canUndo(): boolean {
    return this.past.length > 0;
  }

  get canRedo(): boolean {
    return this.future.length > 0;
  }

  /** A new text. Changes within one drag of a slider are one step (`merge`). */
  change(text: string, merge: boolean): void {
    if (text === this.text) return;
    if (!merge) this.past = [...this.past.slice(-199), this.text];
    this.future = [];
    this.text = text;
  }

  undo(): void {
    const text = this.past.pop();
    if (text === undefined) return;
    this.future.push(this.text);
    this.text = text;
  }

  redo(): void {
    const text = this.future.pop();
    if (text === undefined) return;
    this.past.push(this.text);
    this.text = text;
  }
}
