// The official client, used as its documentation shows, against the server at argv[2]; argv[3] is the model's name.
// openai_test.py starts both. Nothing here knows pawl, but for the demo model's answers.
import assert from "node:assert/strict";
import test from "node:test";
import OpenAI from "openai";

const [, , baseURL, model] = process.argv;
const client = new OpenAI({ baseURL, apiKey: "sesame", maxRetries: 0 });
const messages = [{ role: "user", content: "What is 17 + 25?" }];
const story = [{ role: "user", content: "Tell me a story" }];

test("models", async () => {
  const ids = [];
  for await (const m of client.models.list()) ids.push(m.id);
  assert.deepEqual(ids, [model]);
  assert.equal((await client.models.retrieve(model)).id, model);
});

test("chat", async () => {
  const { data, request_id } = await client.chat.completions.create({ model, messages, temperature: 0 }).withResponse();
  assert.equal(data.object, "chat.completion");
  assert.equal(data.model, model);
  assert.equal(data.choices.length, 1);
  assert.deepEqual(data.choices[0].message.role, "assistant");
  assert.equal(data.choices[0].message.content, "42");
  assert.equal(data.choices[0].finish_reason, "stop");
  assert.equal(data.usage.prompt_tokens + data.usage.completion_tokens, data.usage.total_tokens);
  assert.ok(request_id);
});

test("choices, seed and stop", async () => {
  const body = { model, messages: story, temperature: 0.9, seed: 5, n: 3, max_completion_tokens: 24 };
  const one = await client.chat.completions.create(body);
  assert.deepEqual(one.choices.map((c) => c.index), [0, 1, 2]);
  assert.equal(new Set(one.choices.map((c) => c.message.content)).size, 3);
  const again = await client.chat.completions.create(body);
  assert.deepEqual(again.choices, one.choices);
  const text = one.choices[0].message.content;
  const stop = text.slice(8, 13);
  const cut = await client.chat.completions.create({ ...body, n: 1, stop: [stop] });
  assert.equal(cut.choices[0].message.content, text.slice(0, text.indexOf(stop)));
  assert.equal(cut.choices[0].finish_reason, "stop");
});

test("streaming with usage", async () => {
  const body = { model, messages: story, temperature: 0, max_tokens: 40 };
  const whole = await client.chat.completions.create(body);
  const stream = await client.chat.completions.create({ ...body, stream: true, stream_options: { include_usage: true } });
  let text = "";
  let finish = null;
  let usage = null;
  let pieces = 0;
  for await (const chunk of stream) {
    assert.equal(chunk.object, "chat.completion.chunk");
    if (chunk.usage) usage = chunk.usage;
    for (const c of chunk.choices) {
      text += c.delta.content ?? "";
      finish = c.finish_reason ?? finish;
      pieces++;
    }
  }
  assert.ok(pieces > 2);
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(finish, whole.choices[0].finish_reason);
  for (const k of ["prompt_tokens", "completion_tokens", "total_tokens"]) assert.equal(usage[k], whole.usage[k]);
});

test("the stream helper", async () => {
  let text = "";
  const runner = client.chat.completions.stream({ model, messages, temperature: 0 }).on("content", (d) => (text += d));
  const final = await runner.finalChatCompletion();
  assert.equal(final.choices[0].message.content, "42");
  assert.equal(text, "42");
});

test("logprobs", async () => {
  const body = { model, messages: story, temperature: 0, max_tokens: 12, logprobs: true, top_logprobs: 3 };
  const whole = await client.chat.completions.create(body);
  const entries = whole.choices[0].logprobs.content;
  assert.equal(entries.length, whole.usage.completion_tokens);
  for (const e of entries) {
    assert.ok(e.logprob <= 0);
    assert.equal(e.top_logprobs.length, 3);
    assert.equal(e.top_logprobs[0].token, e.token);
  }
  assert.equal(entries.map((e) => e.token).join(""), whole.choices[0].message.content);
  const streamed = [];
  for await (const chunk of await client.chat.completions.create({ ...body, stream: true }))
    for (const c of chunk.choices) streamed.push(...(c.logprobs?.content ?? []));
  assert.deepEqual(streamed, entries);
});

test("text completions", async () => {
  const body = { model, prompt: "Once upon a time there was a king", temperature: 0, max_tokens: 16 };
  const whole = await client.completions.create(body);
  let text = "";
  for await (const chunk of await client.completions.create({ ...body, stream: true })) text += chunk.choices[0].text;
  assert.equal(text, whole.choices[0].text);
});

// The number of answers whose client went away, as the server counts it.
async function dropped() {
  const headers = { Authorization: `Bearer ${client.apiKey}` };
  const text = await (await fetch(new URL("/metrics", baseURL), { headers })).text();
  return Number(/^pawl_requests_dropped_total\{.*\} (\d+)$/m.exec(text)[1]);
}

async function dropped_becomes(n) {
  for (const end = Date.now() + 60e3; (await dropped()) < n; ) {
    assert.ok(Date.now() < end, "the server still computes an answer that was aborted");
    await new Promise((r) => setTimeout(r, 20));
  }
}

test("abort in mid-stream", async () => {
  const before = await dropped();
  const body = { model, messages: story, max_tokens: 3000, ignore_eos: true, stream: true };
  const stream = await client.chat.completions.create(body);
  let chunks = 0;
  for await (const chunk of stream) {
    assert.ok(chunk.choices.length <= 1);
    if (++chunks === 5) stream.controller.abort();
  }
  assert.ok(chunks >= 5);
  await dropped_becomes(before + 1);

  const control = new AbortController();
  const { data } = await client.chat.completions.create(body, { signal: control.signal }).withResponse();
  for await (const chunk of data) {
    assert.ok(chunk);
    break; // leaving the loop closes the connection as well
  }
  await dropped_becomes(before + 2);

  const whole = client.chat.completions.create({ ...body, max_tokens: 3000, stream: false }, { signal: control.signal });
  setTimeout(() => control.abort(), 50);
  await assert.rejects(whole, OpenAI.APIUserAbortError);
  await dropped_becomes(before + 3);
  assert.equal((await client.chat.completions.create({ model, messages, temperature: 0 })).choices[0].message.content, "42");
});

test("errors", async () => {
  const refused = async (change, param) => {
    const error = await client.chat.completions.create({ model, messages, ...change }).then(
      () => assert.fail(`${param} was accepted`),
      (e) => e,
    );
    assert.ok(error instanceof OpenAI.BadRequestError, String(error));
    assert.equal(error.status, 400);
    assert.equal(error.param, param);
    assert.equal(error.type, "invalid_request_error");
    assert.ok(error.message.includes(param), error.message);
    assert.ok(error.requestID);
  };
  await refused({ temperature: "hot" }, "temperature");
  await refused({ max_tokens: -5 }, "max_tokens");
  await refused({ top_p: 2, stream: true }, "top_p");
  await refused({ stop: [""] }, "stop");
  await refused({ logit_bias: { abc: 1 } }, "logit_bias");
  await refused({ messages: [{ role: "king", content: "x" }] }, "messages[0].role");
  await assert.rejects(client.chat.completions.create({ model: "gpt-4", messages }), OpenAI.NotFoundError);
  await assert.rejects(client.models.retrieve("gpt-4"), OpenAI.NotFoundError);
  const stranger = new OpenAI({ baseURL, apiKey: "wrong", maxRetries: 0 });
  await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
});
