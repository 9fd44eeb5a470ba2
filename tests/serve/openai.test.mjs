// OpenAI's official client against `etna serve` with a real model, stories260K.
import assert from "node:assert/strict";
import { test } from "node:test";
import { client_package, skip, use_server } from "./server.mjs";

const server = use_server("--receipts", "4");
const { default: OpenAI } = await client_package("openai");
const client = () => new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: "Once upon a time" }];
const options = { skip, timeout: 60_000 };

test("models are listed and found", options, async () => {
  const ids = [];
  for await (const one of client().models.list()) ids.push(one.id);
  assert.deepEqual(ids, ["stories"]);
  assert.equal((await client().models.retrieve("stories")).object, "model");
  await assert.rejects(client().models.retrieve("none"), (error) => error.status === 404);
});

test("completions are those of the seed", options, async () => {
  const ask = () => client().completions.create({ model: "stories", prompt: "Once upon a time", max_tokens: 20, seed: 3,
    temperature: 1 });
  const [one, two] = await Promise.all([ask(), ask()]);
  assert.equal(one.choices[0].text, two.choices[0].text);
  assert.equal(one.choices[0].finish_reason, "length");
  assert.equal(one.usage.completion_tokens, 20);
  const greedy = await client().completions.create({ model: "stories", prompt: "Once upon a time", max_tokens: 12,
    temperature: 0, stop: ["Lily"], echo: true });
  assert.match(greedy.choices[0].text, /^Once upon a time, there was a little girl named ?$/);
  assert.equal(greedy.choices[0].finish_reason, "stop");
});

test("a text is scored by echo and logprobs", options, async () => {
  const text = "Once upon a time, there was a little girl named Lily";
  const score = async (prompt) => {
    const reply = await client().completions.create({ model: "stories", prompt, max_tokens: 0, temperature: 0, echo: true,
      logprobs: 1 });
    assert.equal(reply.choices[0].text, prompt);
    const { tokens, token_logprobs, top_logprobs, text_offset } = reply.choices[0].logprobs;
    assert.equal(tokens.length, reply.usage.prompt_tokens);
    assert.deepEqual([token_logprobs, top_logprobs, text_offset].map((list) => list.length), Array(3).fill(tokens.length));
    assert.equal(token_logprobs[0], null);
    return token_logprobs.slice(1).reduce((sum, logprob) => sum + logprob, 0) / tokens.length;
  };
  assert.ok(await score(text) > await score("Lily named girl little a was there time a upon Once") + 1);
});

test("a request has a receipt that its reply names", options, async () => {
  const ask = (body, headers) => client().completions.create({ model: "stories", prompt: "Once upon a time",
    max_tokens: 10, seed: 5, ...body }, { headers }).withResponse();
  const receipt_of = async (response) => {
    const reply = await fetch(`${server.url}/receipts/${response.headers.get("x-etna-receipt-id")}`);
    assert.equal(reply.status, 200);
    return reply.json();
  };
  const { data, response } = await ask({}, { "X-Etna-Receipt": "1" });
  assert.equal(data.usage.completion_tokens, 10);
  const receipt = await receipt_of(response);
  assert.equal(receipt.compute_path, "real");
  assert.equal(receipt.numbers.tokens_written, 10);
  assert.equal(receipt.seeds.sampling, 5);
  const streamed = await ask({ stream: true }, { "X-Etna-Receipt": "1" });
  for await (const chunk of streamed.data) assert.equal(chunk.object, "text_completion");
  assert.equal((await receipt_of(streamed.response)).numbers.tokens_written, 10);
  await assert.rejects(ask({}, { "X-Etna-Receipt": "yes" }), (error) => error.status === 400);
});

test("chats are answered at once and in pieces", options, async () => {
  const request = { model: "stories", messages, max_tokens: 24, temperature: 0, seed: 1, n: 1 };
  const whole = await client().chat.completions.create(request);
  const stream = await client().chat.completions.create({ ...request, stream: true,
    stream_options: { include_usage: true } });
  let text = "", usage = null, finish = null;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? "";
    finish = chunk.choices[0]?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(finish, whole.choices[0].finish_reason);
  assert.deepEqual([usage.prompt_tokens, usage.completion_tokens],
    [whole.usage.prompt_tokens, whole.usage.completion_tokens]);
});

test("the client's own reader of streams gets a whole message", options, async () => {
  const runner = client().chat.completions.stream({ model: "stories", messages, max_tokens: 8 });
  const final = await runner.finalChatCompletion();
  assert.equal(final.choices[0].message.role, "assistant");
  assert.ok(final.choices[0].message.content.length > 0);
});

test("several choices come in one stream", options, async () => {
  const stream = await client().chat.completions.create({ model: "stories", messages, max_tokens: 8, n: 3, stream: true });
  const finished = new Set();
  for await (const chunk of stream)
    for (const choice of chunk.choices) if (choice.finish_reason) finished.add(choice.index);
  assert.deepEqual([...finished].sort(), [0, 1, 2]);
});

test("a stream that is given up frees its slot", options, async () => {
  const controller = new AbortController();
  const stream = await client().chat.completions.create({ model: "stories", messages, max_tokens: 400, stream: true },
    { signal: controller.signal });
  for await (const chunk of stream) if (chunk.choices[0].delta.content) controller.abort();
  for (let i = 0; i < 100; ++i) {
    const health = await (await fetch(`${server.url}/health`)).json();
    if (health.running === 0) return;
    await new Promise((resume) => setTimeout(resume, 20));
  }
  assert.fail("the slot is still taken");
});

test("answers have the form of a schema", options, async () => {
  const schema = { type: "object", properties: { pet: { enum: ["dog", "cat"] }, age: { type: "integer", minimum: 1, maximum: 9 } },
    required: ["pet", "age"], additionalProperties: false };
  const answer = await client().chat.completions.parse({ model: "stories", messages, max_tokens: 100, seed: 5, logprobs: true,
    top_logprobs: 2, response_format: { type: "json_schema", json_schema: { name: "pet", strict: true, schema } } });
  const { pet, age } = JSON.parse(answer.choices[0].message.content);
  assert.ok(["dog", "cat"].includes(pet) && age >= 1 && age <= 9);
  assert.equal(answer.choices[0].logprobs.content.length, answer.usage.completion_tokens);
  assert.equal(answer.choices[0].logprobs.content[0].top_logprobs.length, 2);
});

test("embeddings come as the client decodes them", options, async () => {
  // Without a format, the client asks for base64 and decodes it.
  const decoded = await client().embeddings.create({ model: "stories", input: ["a dog", "a cat"] });
  const plain = await client().embeddings.create({ model: "stories", input: ["a dog", "a cat"], encoding_format: "float" });
  assert.equal(decoded.data.length, 2);
  decoded.data[0].embedding.forEach((x, i) => assert.ok(Math.abs(x - plain.data[0].embedding[i]) < 1e-6));
  assert.ok(Math.abs(Math.hypot(...plain.data[1].embedding) - 1) < 1e-5);
});

test("wrong input has the status and the field that the client expects", options, async () => {
  const refused = (request, status, param) => assert.rejects(client().chat.completions.create(request), (error) => {
    assert.ok(error instanceof OpenAI.APIError);
    assert.equal(error.status, status);
    if (param !== undefined) assert.equal(error.param, param);
    return true;
  });
  await refused({ model: "gpt-5", messages }, 404, "model");
  await refused({ model: "stories", messages, temperature: 9 }, 400, "temperature");
  await refused({ model: "stories", messages, frobnicate: 1 }, 400, "frobnicate");
  await refused({ model: "stories", messages: [{ role: "user", content: "x".repeat(100_000) }] }, 400);
  await refused({ model: "stories", messages: [] }, 400, "messages");
});
