// The worker of openai's Node SDK: it knows nothing of this project.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";

const { OpenAI } = createRequire(`${process.env.SDK_HOME}/package.json`)("openai");
const clients = new Map(); // kept, with their connections

function clientOf(task) {
  const key = JSON.stringify([task.base_url, task.max_retries ?? 0, task.headers]);
  if (!clients.has(key)) {
    clients.set(key, new OpenAI({
      baseURL: task.base_url, apiKey: "any", maxRetries: task.max_retries ?? 0, timeout: 30000, defaultHeaders: task.headers,
    }));
  }
  return clients.get(key);
}

async function all(stream, stopAfter) {
  const items = [];
  for await (const item of stream) {
    items.push(item);
    if (items.length === stopAfter) break; // the SDK aborts the request
  }
  return items;
}

const tasks = {
  async chat(task) {
    const { data, response } = await clientOf(task).chat.completions.create({ model: "gpt-4o", ...task.body }).withResponse();
    return { reply: data, headers: Object.fromEntries(response.headers) };
  },
  async chat_stream(task) {
    const stream = await clientOf(task).chat.completions.create({ model: "gpt-4o", ...task.body, stream: true });
    return { chunks: await all(stream, task.stop_after) };
  },
  async completion(task) {
    return { reply: await clientOf(task).completions.create({ model: "gpt-4o", ...task.body }) };
  },
  async completion_stream(task) {
    return { chunks: await all(await clientOf(task).completions.create({ model: "gpt-4o", ...task.body, stream: true })) };
  },
  async response(task) {
    const reply = await clientOf(task).responses.create({ model: "gpt-4o", ...task.body });
    return { reply, text: reply.output_text };
  },
  async response_stream(task) {
    const events = await all(await clientOf(task).responses.create({ model: "gpt-4o", ...task.body, stream: true }));
    return { events: events.map((event) => event.type) };
  },
  async embedding(task) {
    const reply = await clientOf(task).embeddings.create({ model: "gpt-4o", input: task.body.input });
    return { vectors: reply.data.map((item) => item.embedding) };
  },
  async models(task) {
    const ids = [];
    for await (const model of clientOf(task).models.list()) ids.push(model.id);
    return { ids };
  },
  async model(task) {
    return { id: (await clientOf(task).models.retrieve(task.id)).id };
  },
  async idle(task) {
    for (const seconds of task.pauses) {
      await clientOf(task).models.list();
      await pause(seconds * 1000);
    }
    await clientOf(task).models.list();
    return { calls: task.pauses.length + 1 };
  },
};

function failure(error) {
  const kinds = [];
  for (let kind = error.constructor; kind?.name; kind = Object.getPrototypeOf(kind)) kinds.push(kind.name);
  return { kinds, status: error.status ?? null, message: error.message, code: error.code ?? null, param: error.param ?? null };
}

for await (const line of createInterface({ input: process.stdin })) {
  const task = JSON.parse(line);
  const begun = performance.now();
  const seen = await tasks[task.do](task).catch((error) => ({ error: failure(error) }));
  console.log(JSON.stringify({ ...seen, seconds: (performance.now() - begun) / 1000 }));
}
