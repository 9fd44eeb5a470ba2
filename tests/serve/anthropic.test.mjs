// The server through Anthropic's client.
import assert from "node:assert/strict";
import { test } from "node:test";
import { kCall, package_if, skip_without, with_server } from "./script_server.mjs";

const skip = skip_without("@anthropic-ai/sdk");
const { Anthropic } = await package_if("@anthropic-ai/sdk");
const client_of = (address) => new Anthropic({ baseURL: address, apiKey: "none", maxRetries: 0 });
const tools = [{ name: "get_weather",
  input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } }];
const request = { model: "script", max_tokens: 100, temperature: 0, system: "Be kind.", tools,
  messages: [{ role: "user", content: "Weather in Rome?" }] };

test("messages have thinking, text and use of tools", { skip }, () => with_server(kCall, async (address) => {
  const client = client_of(address);
  const reply = await client.messages.create(request);
  assert.deepEqual(reply.content.map((block) => block.type), ["thinking", "text", "tool_use"]);
  assert.deepEqual(reply.content[2].input, { city: "Rome" });
  assert.equal(reply.stop_reason, "tool_use");
  const stream = client.messages.stream(request), pieces = [];
  stream.on("inputJson", (piece) => pieces.push(piece));
  const final = await stream.finalMessage();
  assert.equal(pieces.join(""), '{"city": "Rome"}');
  assert.deepEqual(final.content[2].input, { city: "Rome" });
  assert.equal(final.content[0].thinking, "Rome, then.");
  assert.equal(final.stop_reason, "tool_use");
  assert.ok(final.usage.output_tokens > 0);
  const again = await client.messages.create({ ...request, messages: [...request.messages,
    { role: "assistant", content: reply.content },
    { role: "user", content: [{ type: "tool_result", tool_use_id: reply.content[2].id, content: "sunny" }] }] });
  assert.equal(again.stop_reason, "tool_use", "the script says so again");
}));

test("tokens are counted", { skip }, () => with_server(["Hi"], async (address) => {
  const { max_tokens, temperature, ...counted } = request;
  const count = await client_of(address).messages.countTokens(counted);
  const reply = await client_of(address).messages.create(request);
  assert.equal(count.input_tokens, reply.usage.input_tokens + reply.usage.cache_read_input_tokens);
}));

test("errors are the client's own", { skip }, () => with_server(["Hi"], async (address) => {
  const client = client_of(address);
  await assert.rejects(client.messages.create({ ...request, model: "nobody" }), Anthropic.NotFoundError);
  await assert.rejects(client.messages.create({ ...request, temperature: 7 }), (error) =>
    error instanceof Anthropic.BadRequestError && error.error.error.message.includes("temperature"));
}));
