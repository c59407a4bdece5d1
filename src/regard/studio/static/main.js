/** Start: find the runs, lay the text before the model, and keep the screen that is open up to date with the address. */

import { ask, lookAt, Refused } from "./api.js";
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
let nav, top_, view, mounted, stands = false, latest = 0, context = { look: null, card: null };

const screen = () => SCREENS.find((one) => one.id === state().screen) ?? SCREENS[0];
/** Of a screen that stands: before, it has nothing to save and nothing that keys could move. */
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
function mount(told) {
  const wanted = `${screen().id} ${told.images ? "image" : "text"}`;
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
    const told = await card(state().run, state().step);
    if (mine !== latest) return;
    if (!state().text) return set({ text: told.example });
    nav.tell(told.facts);
    files.watch(told);
    top_.sync(told);
    if (told.images && screen().before) {
      mount(told);
      await view.before(told, () => mine === latest);
      stands = true;
      if (mine !== latest) return;
    }
    const look = screen().free ? null : await lookAt(asked(state())).catch((error) => alone(error, told));
    if (mine !== latest || look === undefined) return;
    if (look?.data.why && lacks(screen(), told)) throw new Refused(400, look.data.why);
    mount(told);
    context = { look, card: told };
    document.getElementById("refused")?.remove();
    await view.update(context, () => mine === latest);
    if (mine !== latest) return;
    stands = true;
    root.dataset.ready = state().screen;
    root.dataset.look = look?.data.id ?? "";
  } catch (error) {
    if (mine === latest) refuse(error);
  } finally {
    clearTimeout(waiting);
    if (mine === latest) top_.busy(false);
  }
}

/** A model that cannot be looked into may still have something to say. */
async function alone(error, told) {
  if (error.status !== 400 || screen().id !== "run" || told.images || !state().text.trim()) throw error;
  const { answer } = await ask("answer", {}, asked(state())).catch(() => Promise.reject(error));
  mount(told);
  view.alone(answer, error.message);
  context = { look: null, card: told };
  document.getElementById("refused")?.remove();
  stands = true;
  root.dataset.ready = state().screen;
}

/** Has this screen nothing to draw where no attention can be? */
const lacks = (one, told) => one.attends || (one.id === "ablate" && Object.keys(told.attentions).length === 0);

/** One sentence; below it stays what this screen has drawn before, and nothing of another. */
function refuse(error) {
  if (!stands || mounted?.split(" ")[0] !== state().screen) {
    view?.close?.();
    view = mounted = undefined;
    fill(root);
    root.className = root.dataset.look = "";
  }
  root.dataset.ready = state().screen;
  const sentence = error.status === undefined ? `Something in this page went wrong: ${error.message}` : error.message;
  if (error.status === undefined) console.error(error);
  document.getElementById("refused")?.remove();
  root.before(h("p", { id: "refused", role: "alert", class: error.status === 400 ? "told" : "", text: sentence[0].toUpperCase() + sentence.slice(1) }));
  top_.sync();
  say(sentence);
}

async function start() {
  const runs = (await ask("runs")).map((run) => run.name);
  nav = navigation(SCREENS);
  const tools = { help: () => help(screen().title), save: () => exportMenu(data), turn };
  top_ = bar(runs, tools);
  SCREENS.forEach((one, n) => bind({ key: String(n + 1), tells: `${one.title}: ${one.tells}`, does: () => set({ screen: one.id }, { step: true }) }));
  bind(
    { key: "/", tells: "type a text", does: () => top_.focus() },
    { key: "e", tells: "export what is seen", does: tools.save },
    { key: "t", tells: "light or dark", does: turn },
    { key: "?", tells: "these keys", does: tools.help },
  );
  onChange(update);
  onTheme(update);
  if (!runs.includes(state().run)) set({ run: runs[0] });
  else update();
}

start().catch((error) => fill(root, h("p", { id: "refused", role: "alert", text: error.message })));
