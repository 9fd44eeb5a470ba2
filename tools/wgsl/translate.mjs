// Translates one variant of a kernel to WGSL.
//   node translate.mjs --glslang GLSLANG --tint TINT --heap heap.glsl --out VARIANT.json [--depfile FILE] [-I DIR]...
//     [-D NAME[=VALUE]]... VARIANT SHADER
// Writes what bundle.mjs gathers. A variant that cannot be translated gives { name, reason }; this is no error.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { finish } from './finish.mjs';
import { name_functions } from './spirv.mjs';
import { rewrite, Untranslatable } from './rewrite.mjs';

const options = { include: [], define: [], rest: [] };
for (let at = 2; at < process.argv.length; ++at) {
  const argument = process.argv[at];
  if (argument.startsWith('--')) options[argument.slice(2)] = process.argv[++at];
  else if (argument.startsWith('-I')) options.include.push(argument);
  else if (argument.startsWith('-D')) options.define.push(argument);
  else options.rest.push(argument);
}
const [variant, shader] = options.rest;
const work = mkdtempSync(join(tmpdir(), 'etna-wgsl-'));

function run(program, ...args) {
  try {
    return execFileSync(program, args, { encoding: 'utf8', maxBuffer: 1 << 26, stdio: ['ignore', 'pipe', 'pipe'] });
  } catch (e) {
    throw new Error(`${variant}: ${program.split('/').at(-1)}: ${e.stdout}${e.stderr}`);
  }
}

try {
  const definitions = ['-DETNA_WEBGPU', ...options.define, ...options.include];
  const source = run(options.glslang, '-E', '-S', 'comp', ...definitions, shader);
  if (options.depfile) {
    const files = new Set([...source.matchAll(/^#line \d+ "([^"]+)"/gm)].map((m) => m[1]));
    writeFileSync(options.depfile, `${options.out}: ${[shader, ...files].join(' ')}\n`);
  }
  let result;
  try {
    const kernel = rewrite(source, readFileSync(options.heap, 'utf8'));
    const glsl = join(work, `${variant}.comp`),
      spirv = join(work, `${variant}.spv`);
    writeFileSync(options.keep ? join(options.keep, `${variant}.comp`) : glsl, kernel.glsl);
    writeFileSync(glsl, kernel.glsl);
    run(options.glslang, '-V', '--target-env', 'vulkan1.1', '--quiet', '-o', spirv, glsl);
    writeFileSync(spirv, name_functions(readFileSync(spirv)));
    const wgsl = run(options.tint, '--format', 'wgsl', spirv);
    if (options.keep) writeFileSync(join(options.keep, `${variant}.wgsl`), wgsl);
    result = { name: variant, ...finish(wgsl, kernel) };
  } catch (e) {
    if (!(e instanceof Untranslatable)) throw e;
    result = { name: variant, reason: e.message };
  }
  writeFileSync(options.out, JSON.stringify(result));
} catch (e) {
  console.error(e.message);
  process.exitCode = 1;
} finally {
  rmSync(work, { recursive: true });
}
