/** The one-file page of a word: its uses in several sentences, layer by layer. */

import { data, root, start } from "./offline.js";
import { usesView } from "./uses.js";

const view = usesView();
root.append(view.node);
start({ update: async () => view.draw(data), keys: () => view.keys }, {}, { key: "Escape", description: "unpin", action: view.unpin });
