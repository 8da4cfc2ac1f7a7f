// The page's side of a worker.

import { asset } from "./assets";
import type { Reply, Request, Setup } from "./protocol";

type Unsent = Request extends infer R ? (R extends { id: number } ? Omit<R, "id"> : never) : never;

export class Client {
  // The name of the worker is the address of the engine.
  private readonly worker = new Worker(asset("worker.js"), { type: "module", name: asset("engine.wasm") });
  private readonly listeners = new Map<number, (reply: Reply) => void>();
  /** Requests that a newer one replaces. */
  private replaceable: number[] = [];
  private last = 0;

  constructor() {
    this.worker.onmessage = ({ data }: MessageEvent<Reply>) => this.listeners.get(data.id)?.(data);
    this.worker.onerror = (event) => {
      const message = `The engine cannot be loaded: ${event.message}`;
      for (const [id, listener] of this.listeners) listener({ id, kind: "failed", message });
    };
  }

  /** Sends a request; `listener` gets its replies. */
  send(request: Unsent, listener: (reply: Reply) => void): number {
    const id = ++this.last;
    if (request.kind === "run" || request.kind === "trace" || request.kind === "cancel") {
      for (const old of this.replaceable) this.listeners.delete(old);
      this.replaceable = [id];
    }
    this.listeners.set(id, listener);
    this.worker.postMessage({ ...request, id });
    return id;
  }

  /** Sends a request with one reply. */
  ask(request: Unsent): Promise<Reply> {
    return new Promise((resolve) => {
      const id = this.send(request, (reply) => {
        this.listeners.delete(id);
        resolve(reply);
      });
    });
  }

  /** Runs a set-up; a newer run or trace of this client replaces it without another reply. */
  run(setup: Setup, listener: (reply: Reply) => void): void {
    this.send({ kind: "run", setup }, listener);
  }

  cancel(): void {
    this.send({ kind: "cancel" }, () => undefined);
  }
}
