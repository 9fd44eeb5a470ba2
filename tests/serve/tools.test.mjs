// Calls of tools and responses through OpenAI's client.
import assert from "node:assert/strict";
import { test } from "node:test";
import { kCall, package_if, skip_without, with_server } from "./script_server.mjs";

const skip = skip_without("openai");
const { OpenAI } = await package_if("openai");
const client_of = (address) => new OpenAI({ baseURL: `${address}/v1`, apiKey: "none", maxRetries: 0 });
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = [{ type: "function", function: { name: "get_weather", parameters } }];
const messages = [{ role: "user", content: "Weather in Rome?" }];

test("chat completions have calls of tools", { skip }, () => with_server(kCall, async (address) => {
  const client = client_of(address);
  const reply = await client.chat.completions.create({ model: "script", messages, tools, temperature: 0 });
  const { message, finish_reason } = reply.choices[0];
  assert.equal(finish_reason, "tool_calls");
  assert.equal(message.content, "Let me see.");
  assert.equal(message.reasoning_content, "Rome, then.");
  assert.deepEqual(JSON.parse(message.tool_calls[0].function.arguments), { city: "Rome" });
  const stream = client.chat.completions.stream({ model: "script", messages, tools, temperature: 0 });
  const final = (await stream.finalChatCompletion()).choices[0];
  assert.equal(final.finish_reason, "tool_calls");
  assert.deepEqual(JSON.parse(final.message.tool_calls[0].function.arguments), { city: "Rome" });
  const next = [...messages, message, { role: "tool", tool_call_id: message.tool_calls[0].id, content: "sunny" }];
  const again = await client.chat.completions.create({ model: "script", messages: next, tools, temperature: 0 });
  assert.equal(again.choices[0].finish_reason, "tool_calls", "the script says so again");
}));

test("responses have items and events", { skip }, () => with_server(kCall, async (address) => {
  const client = client_of(address);
  const request = { model: "script", input: "Weather in Rome?", temperature: 0, store: false,
    tools: [{ type: "function", name: "get_weather", parameters, strict: false }] };
  const reply = await client.responses.create(request);
  assert.equal(reply.output_text, "Let me see.");
  assert.deepEqual(reply.output.map((item) => item.type), ["reasoning", "message", "function_call"]);
  const stream = client.responses.stream(request), seen = [];
  for await (const event of stream) seen.push(event);
  assert.deepEqual(seen.map((event) => event.sequence_number), seen.map((_, i) => i));
  assert.equal(seen.at(-1).type, "response.completed");
  const final = await stream.finalResponse();
  assert.equal(final.output_text, "Let me see.");
  assert.equal(final.output[2].arguments, '{"city": "Rome"}');
  const next = await client.responses.create({ ...request, input: [{ role: "user", content: "Weather?" },
    ...reply.output, { type: "function_call_output", call_id: reply.output[2].call_id, output: "sunny" }] });
  assert.equal(next.status, "completed");
}));

test("a length that cuts a response is said", { skip }, () => with_server(kCall, async (address) => {
  const reply = await client_of(address).responses.create(
    { model: "script", input: "Hi", temperature: 0, max_output_tokens: 5, store: false });
  assert.equal(reply.status, "incomplete");
  assert.equal(reply.incomplete_details.reason, "max_output_tokens");
}));

test("errors are the client's own", { skip }, () => with_server(["Hi"], async (address) => {
  const client = client_of(address);
  await assert.rejects(client.responses.create({ model: "script", input: "Hi", previous_response_id: "resp_1" }),
    (error) => error instanceof OpenAI.BadRequestError && error.param === "previous_response_id");
  await assert.rejects(client.responses.create({ model: "nobody", input: "Hi" }), OpenAI.NotFoundError);
}));
