/** Start: find the runs, run the model on the text, and keep the screen that is open up to date with the address. */

import { ask, runPass, Refused } from "./api.js";
import { watchFiles } from "./changed.js";
import { fill, h, say } from "./dom.js";
import { bind, help, screenKeys } from "./keys.js";
import { exportMenu } from "./save.js";
import { SCREENS } from "./screens/all.js";
import { bar, navigation } from "./shell.js";
import { onChange, set, state } from "./state.js";
import { onTheme, turn } from "./theme.js";

const root = document.getElementById("screen");
const cards = new Map();
const files = watchFiles(root);
let nav, top_, view, mounted, stands = false, latest = 0, context = { pass: null, card: null };

const screen = () => SCREENS.find((one) => one.id === state().screen) ?? SCREENS[0];
/** A screen that is not drawn yet has nothing to save and nothing that keys could move. */
const data = () => (stands && view?.data?.(context)) || {};
const keys = () => (stands && view?.keys?.(context)) || [];

const asked = (from) => ({ run: from.run, text: from.text, ...(from.target ? { target: from.target } : {}), ...(from.step ? { step: Number(from.step) } : {}) });

function card(run, step) {
  const key = `${run}@${step ?? ""}`;
  if (!cards.has(key)) {
    const asking = ask("run", { run, step });
    asking.catch(() => cards.delete(key));
    cards.set(key, asking);
  }
  return cards.get(key);
}

/** A screen is another one for images than for text. */
function mount(info) {
  const wanted = `${screen().id} ${info.images?.kind ?? (info.series ? "series" : "text")}`;
  if (mounted === wanted) return;
  view?.close?.();
  mounted = wanted;
  stands = false;
  fill(root);
  root.className = screen().id;
  document.title = `${screen().title} · Regard studio`;
  view = screen().mount(root);
  screenKeys(keys);
}

/** All of it, whatever changed: what is known already costs nothing. The newest question wins. */
async function update() {
  const mine = ++latest;
  root.dataset.ready = "";
  const waiting = setTimeout(() => mine === latest && top_.busy(true), 120);
  nav.sync();
  try {
    const info = await card(state().run, state().step);
    if (mine !== latest) return;
    if (!state().text) return set({ text: info.example });
    nav.tell(info.facts);
    files.watch(info);
    top_.sync(info);
    if (info.images && screen().before) {
      mount(info);
      await view.before(info, () => mine === latest);
      stands = true;
      if (mine !== latest) return;
    }
    const alike = info.images?.kind === "questions" && screen().before; // it asks by itself, and there is nothing else to draw
    const pass = screen().free || alike ? null : await runPass(asked(state())).catch((error) => alone(error, info));
    if (mine !== latest || pass === undefined) return;
    if (pass?.data.why && lacks(screen(), info)) throw new Refused(400, pass.data.why);
    mount(info);
    context = { pass, card: info };
    document.getElementById("refused")?.remove();
    await view.update(context, () => mine === latest);
    if (mine !== latest) return;
    stands = true;
    root.dataset.ready = state().screen;
    root.dataset.pass = pass?.data.id ?? "";
  } catch (error) {
    if (mine === latest) refuse(error);
  } finally {
    clearTimeout(waiting);
    if (mine === latest) top_.busy(false);
  }
}

/** A model that cannot be inspected may still have something to say. */
async function alone(error, info) {
  if (error.status !== 400 || screen().id !== "run" || info.images || !state().text.trim()) throw error;
  const { answer } = await ask("answer", {}, asked(state())).catch(() => Promise.reject(error));
  mount(info);
  view.alone(answer, error.message);
  context = { pass: null, card: info };
  document.getElementById("refused")?.remove();
  stands = true;
  root.dataset.ready = state().screen;
}

/** Has this screen nothing to draw where no attention can be? */
const lacks = (one, info) => one.attends || (one.id === "ablate" && Object.keys(info.attentions).length === 0);

/** One sentence; below it stays what this screen has drawn before, and nothing of another. */
function refuse(error) {
  if (!stands || mounted?.split(" ")[0] !== state().screen) {
    view?.close?.();
    view = mounted = undefined;
    fill(root);
    root.className = root.dataset.pass = "";
  }
  root.dataset.ready = state().screen;
  const sentence = error.status === undefined ? `Something in this page went wrong: ${error.message}` : error.message;
  if (error.status === undefined) console.error(error);
  document.getElementById("refused")?.remove();
  root.before(h("p", { id: "refused", role: "alert", class: error.status === 400 ? "info" : "", text: sentence[0].toUpperCase() + sentence.slice(1) }));
  top_.sync();
  say(sentence);
}

async function start() {
  const runs = (await ask("runs")).map((run) => run.name);
  nav = navigation(SCREENS);
  const tools = { help: () => help(screen().title), save: () => exportMenu(data), turn };
  top_ = bar(runs, tools);
  SCREENS.forEach((one, n) => bind({ key: String(n + 1), description: `${one.title}: ${one.description}`, action: () => set({ screen: one.id }, { step: true }) }));
  bind(
    { key: "/", description: "type a text", action: () => top_.focus() },
    { key: "e", description: "export what is seen", action: tools.save },
    { key: "t", description: "light or dark", action: turn },
    { key: "?", description: "these keys", action: tools.help },
  );
  onChange(update);
  onTheme(update);
  if (!runs.includes(state().run)) set({ run: runs[0] });
  else update();
}

start().catch((error) => fill(root, h("p", { id: "refused", role: "alert", text: error.message })));
