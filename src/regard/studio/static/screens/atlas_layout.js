/** Where each head of the atlas stands: groups on as few or as many shelves as let the cells be largest. */

export const GAP = 10;
export const BELOW = 17;
const GROUP = 34;
const TITLE = 40;

/** Groups beside each other: a stack's self-attention, its cross-attention; layers down, heads across. */
export function layout(pass, wide, tall) {
  const kinds = new Map();
  for (const one of pass.data.attentions) {
    const [stack, , kind] = one.name.split(".");
    const key = `${stack} ${kind}`;
    kinds.set(key, [...(kinds.get(key) ?? []), one]);
  }
  const groups = [...kinds].map(([title, layers]) => ({ title, layers, across: Math.max(...layers.map((one) => one.heads)) }));
  const tries = groups.map((_, n) => shelves(groups, n + 1)).map((rows) => ({ rows, cell: fitting(rows, wide, tall) }));
  const { rows, cell } = tries.reduce((best, one) => (one.cell > best.cell ? one : best));
  return placed(rows, cell);
}

/** Groups in shelves of this many. */
const shelves = (groups, each) => Array.from({ length: Math.ceil(groups.length / each) }, (_, n) => groups.slice(n * each, (n + 1) * each));

/** The largest cell with which all shelves fit. */
function fitting(rows, wide, tall) {
  const across = Math.min(...rows.map((row) => (wide - 26 - (row.length - 1) * GROUP) / row.reduce((sum, one) => sum + one.across, 0) - GAP));
  const layers = rows.reduce((sum, row) => sum + Math.max(...row.map((one) => one.layers.length)), 0);
  const down = (tall - rows.length * TITLE) / layers - BELOW - GAP;
  return Math.max(24, Math.min(150, Math.floor(Math.min(across, down))));
}

function placed(rows, cell) {
  const cells = [];
  const titles = [];
  let top = 0;
  let wide = 0;
  for (const row of rows) {
    let left = 26;
    for (const { title, layers, across } of row) {
      titles.push({ title, x: left, y: top + 12, across });
      layers.forEach((one, layer) => {
        for (let head = 0; head < one.heads; head++) {
          cells.push({ name: one.name, head, row: layer, x: left + head * (cell + GAP), y: top + TITLE + layer * (cell + BELOW + GAP) });
        }
      });
      left += across * (cell + GAP) + GROUP;
    }
    wide = Math.max(wide, left - GROUP);
    top += TITLE + Math.max(...row.map((one) => one.layers.length)) * (cell + BELOW + GAP);
  }
  return { cells, titles, cell, wide, tall: top };
}
