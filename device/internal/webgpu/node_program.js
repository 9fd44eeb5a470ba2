// For programs under node, before main(): opens Dawn where $ETNA_DAWN names the folder with node_modules/webgpu and
// $ETNA_WGSL the kernels.json. Waiting for WebGPU takes JavaScript Promise Integration (node 24); without it programs
// run on the CPU.
if (typeof WebAssembly.Suspending === "function") {
  if (process.env.ETNA_DAWN) (Module.preRun ??= []).push(open_dawn);
} else {
  // Nothing waits then, so plain functions do.
  WebAssembly.Suspending = function (f) {
    return f;
  };
  WebAssembly.promising = (f) => f;
}

function open_dawn() {
  addRunDependency("webgpu");
  (async () => {
    const { createRequire } = require("node:module");
    const { readFileSync } = require("node:fs");
    const { join } = require("node:path");
    const { pathToFileURL } = require("node:url");
    const dawn = pathToFileURL(createRequire(join(process.env.ETNA_DAWN, "package.json")).resolve("webgpu"));
    const { create, globals } = await import(dawn);
    Object.assign(globalThis, globals);
    Module.etna_dawn = create([]); // as long as its devices
    const { open_webgpu } = await import(pathToFileURL(process.env.ETNA_WEBGPU_MODULE));
    const read_kernels = () => JSON.parse(readFileSync(process.env.ETNA_WGSL, "utf8"));
    Module.etna_webgpu = await open_webgpu({ gpu: Module.etna_dawn, read_kernels });
  })()
    .catch((error) => console.error(`webgpu: ${error.message}`))
    .finally(() => removeRunDependency("webgpu"));
}
