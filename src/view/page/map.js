// The map: what it shows, its painting, and how it moves.

const data = JSON.parse(document.getElementById("data").textContent);
const mesh = new Mesh(data);
const byId = (id) => document.getElementById(id);
const canvas = byId("map");
const paper = canvas.getContext("2d", { alpha: false });
const highest = data.highest;
const counted = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

/** A new element with properties and what is in it. */
function element(name, properties = {}, ...inside) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...inside);
    return made;
}

// --- What is shown

const digits = String(highest).length;
const cell = { width: Math.max(30, 8 * digits + 12), height: 24 };
const wide = mesh.axes.map((axis, a) => a).filter((a) => mesh.axes[a].size > 1);
const arrangements = {};
if (data.cluster) arrangements.machines = new Plan(data.cluster.levels, cell);
arrangements.mesh = new Plan((wide.length ? wide : [0]).map((a) => ({ name: mesh.axes[a].name, count: mesh.axes[a].size })), cell);

let plan; // one of the arrangements
let rankOf; // by slot, -1 where no rank is
let slotOf; // by rank
let colors; // of the indices of `colored`
let colored = data.color; // the axis whose index is a rank's colour
const along = new Set([data.color]); // the axes of the groups that light up
let selected = null;
let pointed = null; // by the pointer, or by the arrow keys
let row = null; // the axis of the group that is pointed at beside the map
let found = null; // ranks that a search has found
let view = { x: 0, y: 0, scale: 1 }; // what is at the left upper corner, and the pixels of a unit
let picture = null; // all cells, small, for when they are small

function arrange(name) {
    plan = arrangements[name];
    const byMachine = name === "machines";
    rankOf = new Int32Array(plan.slots).fill(-1);
    slotOf = new Map();
    for (let slot = 0; slot < plan.slots; ++slot) {
        const rank = byMachine ? (mesh.indices(slot) ? slot : -1) : mesh.rankAt(mesh.indicesAt(slot));
        rankOf[slot] = rank;
        if (rank >= 0) slotOf.set(rank, slot);
    }
    recolor();
}

let indexOf; // of the coloured axis, by slot
function recolor() {
    colors = colorsOf(mesh.axes[colored].size, data);
    indexOf = new Int32Array(plan.slots);
    for (let slot = 0; slot < plan.slots; ++slot)
        if (rankOf[slot] >= 0) indexOf[slot] = mesh.indices(rankOf[slot])[colored];
    picture = null;
    paintLegend();
    repaint();
}

/** Whose groups are lit. */
function focus() {
    return pointed ?? selected;
}

/** The ranks that are lit, null if all are. */
function lit() {
    if (row !== null && selected !== null) return mesh.ranksAlong(mesh.indices(selected), new Set([row]));
    if (focus() !== null) return mesh.ranksAlong(mesh.indices(focus()), along);
    return found;
}

/** The ranks of all groups of the selected rank, while nothing is pointed at: they are not dimmed. */
function peers() {
    if (selected === null || pointed !== null || row !== null) return [];
    return wide.flatMap((a) => mesh.ranksAlong(mesh.indices(selected), new Set([a])));
}

// --- Painting

const theme = {};
function readTheme() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["back", "text", "dim", "frame", "empty", "accent"]) theme[name] = style.getPropertyValue("--" + name).trim();
}

const fewPixels = 7; // a cell less wide than this is part of the picture
const leastMark = 4; // pixels of the width of a cell that stands out
const leastBox = 24; // pixels of the width of a box that has a frame

/** All cells as one picture, at most four million pixels; a cell is one at least. */
function paintPicture() {
    const scale = Math.min(1, Math.sqrt(4e6 / (plan.width * plan.height)));
    const width = Math.max(1, Math.ceil(plan.width * scale));
    const height = Math.max(1, Math.ceil(plan.height * scale));
    const pixels = new ImageData(width, height);
    const words = new Uint32Array(pixels.data.buffer);
    plan.each({ left: 0, top: 0, right: plan.width, bottom: plan.height }, (d, slot, number, x, y) => {
        if (d < plan.depth) return true;
        if (rankOf[slot] < 0) return false;
        const left = Math.floor(x * scale);
        const right = Math.min(width, Math.max(left + 1, Math.floor((x + cell.width) * scale)));
        const top = Math.floor(y * scale);
        const bottom = Math.min(height, Math.max(top + 1, Math.floor((y + cell.height) * scale)));
        for (let line = top; line < bottom; ++line) words.fill(colors[indexOf[slot]].pixel, line * width + left, line * width + right);
        return false;
    });
    picture = element("canvas", { width, height });
    picture.getContext("2d").putImageData(pixels, 0, 0);
}

let waiting = false;
function repaint() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
        waiting = false;
        paint();
    });
}

function onScreen(x, y) {
    return [(x - view.x) * view.scale, (y - view.y) * view.scale];
}

function paintCell(slot, x, y, strong) {
    const [left, top] = onScreen(x, y);
    const width = cell.width * view.scale;
    const height = cell.height * view.scale;
    const rank = rankOf[slot];
    paper.globalAlpha = strong ? 1 : 0.22;
    paper.fillStyle = rank < 0 ? theme.empty : colors[indexOf[slot]].fill;
    paper.fillRect(left, top, width, height);
    if (rank < 0 || height < 13) return;
    const large = height >= 44;
    const size = Math.min(large ? height / 3 : height * 0.56, (width - 4) / (0.62 * digits), 18);
    if (size < 7) return;
    paper.globalAlpha = strong ? 1 : 0.8;
    paper.fillStyle = strong ? colors[indexOf[slot]].text : theme.text;
    paper.textAlign = "center";
    paper.textBaseline = "middle";
    paper.font = `${size}px ui-monospace, monospace`;
    paper.fillText(rank, left + width / 2, top + height * (large ? 0.36 : 0.53), width - 2);
    if (!large) return;
    paper.font = `${Math.min(size, 12)}px system-ui, sans-serif`;
    paper.fillText(`${mesh.axes[colored].name}=${indexOf[slot]}`, left + width / 2, top + height * 0.74, width - 4);
}

function paintBox(d, label, number, x, y) {
    const [left, top] = onScreen(x, y);
    const { width, height, head, pad } = plan.box[d];
    paper.globalAlpha = 1;
    paper.strokeStyle = theme.frame;
    paper.lineWidth = 1;
    paper.strokeRect(Math.round(left) + 0.5, Math.round(top) + 0.5, Math.round(width * view.scale), Math.round(height * view.scale));
    const room = (head + pad) * view.scale;
    if (room < 10) return;
    paper.fillStyle = theme.dim;
    paper.textAlign = "left";
    paper.textBaseline = "middle";
    paper.font = `${Math.min(room * 0.72, 16)}px system-ui, sans-serif`;
    if (paper.measureText(label).width + 8 <= width * view.scale) paper.fillText(label, left + 4, top + room / 2);
    else if (paper.measureText(number).width + 4 <= width * view.scale) paper.fillText(number, left + 3, top + room / 2);
}

function outline(rank, color, thick) {
    const { x, y } = plan.corner(slotOf.get(rank));
    const [left, top] = onScreen(x, y);
    const width = Math.max(cell.width * view.scale, leastMark);
    const height = Math.max(cell.height * view.scale, leastMark);
    paper.globalAlpha = 1;
    paper.strokeStyle = color;
    paper.lineWidth = Math.min(thick, Math.max(1.5, width / 10));
    paper.strokeRect(left, top, width, height);
}

/** A ring that is found among a million ranks. */
function ring(rank) {
    const { x, y } = plan.corner(slotOf.get(rank));
    const [left, top] = onScreen(x + cell.width / 2, y + cell.height / 2);
    paper.globalAlpha = 1;
    for (const [color, thick] of [[theme.back, 7], [theme.text, 3]]) {
        paper.strokeStyle = color;
        paper.lineWidth = thick;
        paper.beginPath();
        paper.arc(left, top, 12, 0, 2 * Math.PI);
        paper.stroke();
    }
}

/** A cell of a group, as it stands out among dimmed ones. */
function paintLit(rank, shown, small, outlined) {
    const slot = slotOf.get(rank);
    const { x, y } = plan.corner(slot);
    if (x > shown.right || y > shown.bottom || x + cell.width < shown.left || y + cell.height < shown.top) return;
    if (small) {
        const [left, top] = onScreen(x, y);
        const least = outlined ? leastMark : 2;
        paper.globalAlpha = 1;
        paper.fillStyle = colors[indexOf[slot]].fill;
        paper.fillRect(left, top, Math.max(cell.width * view.scale, least), Math.max(cell.height * view.scale, least));
    } else {
        paintCell(slot, x, y, true);
    }
    if (outlined) outline(rank, theme.text, 1.5);
}

function paint() {
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(height * ratio);
    }
    paper.setTransform(ratio, 0, 0, ratio, 0, 0);
    paper.globalAlpha = 1;
    paper.fillStyle = theme.back;
    paper.fillRect(0, 0, width, height);

    const ranks = lit();
    const small = cell.width * view.scale < fewPixels;
    const shown = { left: view.x, top: view.y, right: view.x + width / view.scale, bottom: view.y + height / view.scale };
    if (small) {
        if (!picture) paintPicture();
        const [left, top] = onScreen(0, 0);
        paper.globalAlpha = ranks ? 0.22 : 1;
        paper.imageSmoothingQuality = "high";
        paper.drawImage(picture, left, top, plan.width * view.scale, plan.height * view.scale);
    }
    plan.each(shown, (d, box, number, x, y) => {
        if (d === plan.depth) {
            paintCell(box, x, y, !ranks);
            return false;
        }
        const framed = plan.box[d].width * view.scale >= leastBox;
        if (framed) paintBox(d, plan.label(d, box, number), number, x, y);
        return small ? framed && d + 1 < plan.depth : true;
    });
    for (const rank of peers()) paintLit(rank, shown, small, false);
    for (const rank of ranks ?? []) paintLit(rank, shown, small, true);
    if (selected !== null) {
        outline(selected, theme.text, 4);
        if (small) ring(selected);
    }
    if (pointed !== null && pointed !== selected) outline(pointed, theme.accent, 3);
}

// --- Moving

const margin = 16; // pixels around all ranks
const below = 56; // and below them, where the rank that is pointed at is named
const zoomedIn = 56; // pixels of a cell's width at which a rank is looked at

const leastScale = () => 0.8 * Math.min(canvas.clientWidth / plan.width, canvas.clientHeight / plan.height);
function fit() {
    const width = canvas.clientWidth - 2 * margin;
    const height = canvas.clientHeight - margin - below;
    const scale = Math.min(width / plan.width, height / plan.height, 3);
    view = {
        scale,
        x: (plan.width - width / scale) / 2 - margin / scale,
        y: (plan.height - height / scale) / 2 - margin / scale,
    };
    repaint();
}
/** Zooms, and keeps what is at a point of the canvas there. */
function zoom(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
    const scale = Math.min(Math.max(view.scale * factor, Math.min(leastScale(), view.scale)), Math.max(8, view.scale));
    view = { scale, x: view.x + x / view.scale - x / scale, y: view.y + y / view.scale - y / scale };
    repaint();
}
/** Puts a rank in the middle, and large enough to be read. */
function center(rank) {
    const { x, y } = plan.corner(slotOf.get(rank));
    const scale = Math.max(view.scale, zoomedIn / cell.width);
    view = {
        scale,
        x: x + cell.width / 2 - canvas.clientWidth / scale / 2,
        y: y + cell.height / 2 - canvas.clientHeight / scale / 2,
    };
    repaint();
}
function isVisible(rank) {
    const { x, y } = plan.corner(slotOf.get(rank));
    const [left, top] = onScreen(x, y);
    const [right, bottom] = onScreen(x + cell.width, y + cell.height);
    return left >= 0 && top >= 0 && right <= canvas.clientWidth && bottom <= canvas.clientHeight && cell.width * view.scale >= 20;
}
function rankAtPoint(x, y) {
    const slot = plan.slotAt(view.x + x / view.scale, view.y + y / view.scale);
    return slot >= 0 && rankOf[slot] >= 0 ? rankOf[slot] : null;
}
