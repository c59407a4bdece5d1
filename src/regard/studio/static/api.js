/** Questions to the server. A refusal is a sentence; a pass that the server no longer has is run again, unnoticed. */

export class Refused extends Error {
  constructor(status, sentence) {
    super(sentence);
    this.status = status;
  }
}

const asJson = (body) => (body === undefined ? {} : { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } });

async function answer(path, given, sent) {
  const query = new URLSearchParams(Object.entries(given ?? {}).filter(([, value]) => value !== undefined && value !== null));
  let response;
  try {
    response = await fetch(`/api/${path}${query.size ? `?${query}` : ""}`, sent);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The server does not answer; is 'regard studio' still running in its terminal?");
  }
  if (response.headers.has("x-cannot")) throw new Refused(400, (await response.json()).cannot);
  if (response.ok) return response;
  const info = await response.text();
  let sentence = info;
  try {
    sentence = JSON.parse(info).error ?? info;
  } catch {
    // a guard in front answers in plain words
  }
  throw new Refused(response.status, sentence);
}

export const ask = async (path, given, body) => (await answer(path, given, asJson(body))).json();

/** A file as it is. */
export const hand = async (path, given, file) => (await answer(path, given, { method: "POST", body: file, headers: { "content-type": "application/octet-stream" } })).json();

/** An answer that comes in parts, as they arrive. @returns {Promise<{side: number, chunks: AsyncIterable<Uint8Array>}>} */
export async function frames(path, given, signal) {
  const response = await answer(path, given, { signal });
  const reader = response.body.getReader();
  const chunks = (async function* () {
    for (let part = await reader.read(); !part.done; part = await reader.read()) yield part.value;
  })();
  return { side: Number(response.headers.get("x-side")), chunks };
}

const TYPES = { float32: Float32Array, uint8: Uint8Array };

/** Raw numbers with their shape. @returns {Promise<{shape: number[], data: Float32Array|Uint8Array}>} */
export async function numbers(path, given) {
  const response = await answer(path, given, {});
  const shape = response.headers.get("x-shape").split(",").map(Number);
  const Kind = TYPES[response.headers.get("x-type")];
  return { shape, data: new Kind(await response.arrayBuffer()) };
}

/**
 * An input laid before a model. What was asked about it is kept here too, so that going back costs nothing.
 * @typedef {{id: string, title: string, sides: Record<string, Side>, outputs: Side|null, steps: Step[], nll: number|null,
 *   attentions: {name: string, heads: number, queries: number, keys: number}[], why: string|null, nested: boolean, faith: object,
 *   seconds: number}} PassData
 * @typedef {{tokens: string[], words: number[], special: boolean[]}} Side
 * @typedef {{top: {choice: string, id: number, p: number}[], target: string|null, p: number|null, nll: number|null, rank: number|null}} Step
 */
export class ModelPass {
  /** @param {object} asked @param {PassData} data */
  constructor(asked, data) {
    this.asked = asked;
    this.data = data;
    this.kept = new Map();
  }

  attention(name) {
    return this.data.attentions.find((one) => one.name === name);
  }

  /** Queries and keys, as tokens. @returns {[Side, Side]} */
  around(name) {
    if (this.data.apart?.[name]) return this.data.apart[name].map((side) => this.data.sides[side]);
    const stack = name === "cross" ? "decoder" : name.split(".")[0];
    return [this.data.sides[stack], this.data.sides[name.endsWith("cross") ? "encoder" : stack]];
  }

  /** What a query stands for: in a decoder that reads its own output, the word that is written there. */
  writes(name) {
    return name.endsWith(".cross") && this.data.outputs ? this.data.outputs : this.around(name)[0];
  }

  /** Ask once; if the server no longer has the pass, run it again and then ask. */
  of(kind, path, given = {}, body = undefined) {
    const key = JSON.stringify([kind === numbers, path, given, body]);
    if (!this.kept.has(key)) {
      const asking = this.again(() => kind(path, { id: this.data.id, ...given }, body));
      asking.catch(() => this.kept.delete(key));
      this.kept.set(key, asking);
    }
    return this.kept.get(key);
  }

  /** JSON about this input. */
  ask(path, given, body) {
    return this.of(ask, path, given, body);
  }

  /** Raw numbers about this input. */
  numbers(path, given) {
    return this.of(numbers, path, given);
  }

  async again(question) {
    try {
      return await question();
    } catch (error) {
      if (error.status !== 410) throw error;
      const fresh = await ask("pass", {}, this.asked);
      if (fresh.id !== this.data.id) throw new Refused(409, "The files of this run have changed; reload this page to see it as it is now.");
      return question();
    }
  }
}

const passes = new Map();
const KEPT = 12;

/** @returns {Promise<ModelPass>} */
export function runPass(asked) {
  const key = JSON.stringify(asked);
  if (!passes.has(key)) {
    const running = ask("pass", {}, asked).then((data) => new ModelPass(asked, data));
    running.catch(() => passes.delete(key));
    passes.set(key, running);
    if (passes.size > KEPT) passes.delete(passes.keys().next().value);
  }
  return passes.get(key);
}
