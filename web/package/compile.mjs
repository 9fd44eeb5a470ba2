// Modules of WebAssembly that tell how much of them has come.

/**
 * Compiles a module while its bytes come.
 * @param on_progress called with { loaded, total } in bytes; total is 0 where the server does not say
 */
async function compile(url, on_progress) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  // The length of a compressed answer is not the module's.
  const total = response.headers.get("content-encoding") ? 0 : Number(response.headers.get("content-length"));
  let loaded = 0;
  const counter = new TransformStream({
    transform(chunk, out) {
      loaded += chunk.length;
      // Another server's encoding cannot be seen: its length is not the module's.
      on_progress({ loaded, total: loaded <= total ? total : 0 });
      out.enqueue(chunk);
    },
  });
  const headers = { "Content-Type": "application/wasm" };
  return WebAssembly.compileStreaming(new Response(response.body.pipeThrough(counter), { headers }));
}

/**
 * Calls what Emscripten made to open a module.
 * @param url of the .wasm @param on_progress as in compile(); without it Emscripten loads the module itself
 */
export async function open_module(make, url, options, on_progress) {
  if (!on_progress) return make(options);
  const module = await compile(url, on_progress);
  return new Promise((resolve, reject) => {
    const instantiateWasm = (imports, receive) => {
      WebAssembly.instantiate(module, imports).then((instance) => receive(instance, module)).catch(reject);
      return {};
    };
    make({ ...options, instantiateWasm }).then(resolve, reject);
  });
}
