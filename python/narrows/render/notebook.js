// The lab in a notebook: a frame whose files come from the widget, not from a server.

const TYPES = { css: "text/css", js: "text/javascript", wasm: "application/wasm", json: "application/json" };

/** Addresses of the widget's files, by name. */
function addresses(files) {
  const made = {};
  for (const [name, bytes] of Object.entries(files)) {
    const type = TYPES[name.split(".").pop()] ?? "application/octet-stream";
    made[name] = URL.createObjectURL(new Blob([bytes], { type }));
  }
  return made;
}

function page(at, shared) {
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>narrows lab</title>
<link rel="stylesheet" href="${at["lab.css"]}"></head><body>
<div id="app" data-worker="${at["worker.js"]}" data-engine="${at["engine.wasm"]}"
 data-scenarios="${at["scenarios.json"]}" data-shared="${shared}"></div>
<script type="module" src="${at["lab.js"]}"></script></body></html>`;
}

function render({ model, el }) {
  const at = addresses(model.get("_files"));
  const frame = document.createElement("iframe");
  frame.title = "narrows lab";
  frame.style.cssText = `width: 100%; height: ${Number(model.get("height"))}px; border: 0`;
  // The URL alphabet of base64 needs no quotation.
  frame.srcdoc = page(at, model.get("_shared").replace(/[^#=\w-]/g, ""));
  let inside = null;
  const heard = (event) => {
    if (event.source !== frame.contentWindow || typeof event.data?.narrowsScenario !== "string") return;
    inside = event.data.narrowsScenario;
    model.set("scenario", inside);
    model.save_changes();
  };
  const changed = () => {
    const text = model.get("scenario");
    if (text !== inside) frame.contentWindow?.postMessage({ narrowsScenario: text }, "*");
  };
  window.addEventListener("message", heard);
  model.on("change:scenario", changed);
  el.append(frame);
  return () => {
    window.removeEventListener("message", heard);
    model.off("change:scenario", changed);
    for (const address of Object.values(at)) URL.revokeObjectURL(address);
  };
}

export default { render };
