// A server of a model that says a script.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { client_package } from "./server.mjs";

const program = process.env.ETNA_SERVE_SCRIPT ?? "";
/** Why tests with a package of npm are skipped, or false. */
export function skip_without(name) {
  if (!existsSync(program)) return `there is no serve_script (${program})`;
  return existsSync(join(process.env.ETNA_CLIENTS, "node_modules", name)) ? false : `there is no package ${name}`;
}
/** A package of npm, or what has no parts where the tests are skipped. */
export const package_if = async (name) => (skip_without(name) ? {} : client_package(name));

/** The markup of chatml, with what says that the model reasons and calls tools. */
export const kTemplate =
  "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + (m.content or '') + '<|im_end|>\\n' }}{% endfor %}" +
  "{%- if tools %}{{ tools | tojson }}<tool_call>{% endif %}" +
  "{{ '<|im_start|>assistant\\n' }}{# <think></think> #}";

export const kCall = ["<think>", "\nRome, ", "then.", "</think>\n", "Let me see.", "\n<tool_call>",
  '{"name": "get_weather", ', '"arguments": {"ci', 'ty": "Rome"}', "}\n", "</tool_call>"];

/** Runs f with the address of a server that says these pieces. */
export async function with_server(pieces, f, template = kTemplate) {
  const server = spawn(program, [template, ...pieces], { stdio: ["pipe", "pipe", "inherit"] });
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
