/** Start: find the runs, lay the text before the model, and keep the screen that is open up to date with the address. */

import { ask, lookAt } from "./api.js";
import { fill, h, say } from "./dom.js";
import { bind, help, screenKeys } from "./keys.js";
import { exportMenu } from "./save.js";
import { SCREENS } from "./screens/all.js";
import { bar, navigation } from "./shell.js";
import { onChange, set, state } from "./state.js";
import { onTheme, turn } from "./theme.js";

const root = document.getElementById("screen");
const cards = new Map();
let nav, top_, view, mounted, latest = 0, context = { look: null, card: null };

const screen = () => SCREENS.find((one) => one.id === state().screen) ?? SCREENS[0];
const data = () => view?.data?.(context) ?? {};

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

function mount() {
  if (mounted === screen().id) return;
  view?.close?.();
  mounted = screen().id;
  fill(root);
  root.className = mounted;
  document.title = `${screen().title} · Regard studio`;
  view = screen().mount(root);
  screenKeys(() => view?.keys?.(context) ?? []);
}

/** All of it, whatever changed: what is known already costs nothing. The newest question wins. */
async function update() {
  const mine = ++latest;
  const waiting = setTimeout(() => top_.busy(true), 120);
  nav.sync();
  try {
    const told = await card(state().run, state().step);
    if (mine !== latest) return;
    if (!state().text) return set({ text: told.example });
    nav.tell(told.facts);
    top_.sync(told.task);
    const look = screen().free ? null : await lookAt(asked(state()));
    if (mine !== latest) return;
    mount();
    context = { look, card: told };
    document.getElementById("refused")?.remove();
    await view.update(context, () => mine === latest);
    root.dataset.ready = state().screen;
    root.dataset.look = look?.data.id ?? "";
  } catch (error) {
    if (mine === latest) refuse(error);
  } finally {
    clearTimeout(waiting);
    if (mine === latest) top_.busy(false);
  }
}

function refuse(error) {
  const sentence = error.status === undefined ? `Something in this page went wrong: ${error.message}` : error.message;
  if (error.status === undefined) console.error(error);
  document.getElementById("refused")?.remove();
  root.before(h("p", { id: "refused", role: "alert", text: sentence[0].toUpperCase() + sentence.slice(1) }));
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
