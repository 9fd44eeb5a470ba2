// A server of a model that says a script, and the packages of npm that tests use.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";

const require = createRequire(join(process.env.ETNA_CLIENTS, "package.json"));
export const packaged = (name) => require(name);

/** The markup of chatml, with what says that the model reasons and calls tools. */
export const kTemplate =
  "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + (m.content or '') + '<|im_end|>\\n' }}{% endfor %}" +
  "{%- if tools %}{{ tools | tojson }}<tool_call>{% endif %}" +
  "{{ '<|im_start|>assistant\\n' }}{# <think></think> #}";

export const kCall = ["<think>", "\nRome, ", "then.", "</think>\n", "Let me see.", "\n<tool_call>",
  '{"name": "get_weather", ', '"arguments": {"ci', 'ty": "Rome"}', "}\n", "</tool_call>"];

/** Runs f with the address of a server that says these pieces. */
export async function with_server(pieces, f, template = kTemplate) {
  const server = spawn(process.env.ETNA_SERVE_SCRIPT, [template, ...pieces], { stdio: ["pipe", "pipe", "inherit"] });
  try {
    const lines = createInterface({ input: server.stdout })[Symbol.asyncIterator]();
    const { value, done } = await lines.next();
    if (done) throw new Error("the server did not start");
    await f(`http://127.0.0.1:${value}`);
  } finally {
    const ended = new Promise((resolve) => server.once("exit", resolve));
    server.stdin.end();
    await ended;
  }
}
