// The plan: where each cell lies, boxes inside boxes, in units that zooming scales.

const gapOfCells = 3;
const aspect = 1.5; // width to height, of each box as near as it comes

/** How many columns make a grid of `count` things of this size as wide as `aspect` asks, with few places left empty. */
function columnsOf(count, width, height) {
    let best = 1;
    let least = Infinity;
    for (let columns = 1; columns <= count; ++columns) {
        const rows = Math.ceil(count / columns);
        const empty = (rows * columns - count) / count;
        const cost = Math.abs(Math.log((columns * width) / (rows * height) / aspect)) + 12 * empty;
        if (cost < least) [best, least] = [columns, cost];
    }
    return best;
}

/** The places of the slots of a tree: `levels` are `{name, count}`, outermost first, and slots count its leaves in order. */
class Plan {
    constructor(levels, cell) {
        const depth = levels.length;
        this.levels = levels;
        this.depth = depth;
        this.span = new Array(depth + 1).fill(1); // slots of one box, by depth: 0 is all
        for (let d = depth - 1; d >= 0; --d) this.span[d] = this.span[d + 1] * levels[d].count;
        this.box = new Array(depth + 1);
        this.box[depth] = { width: cell.width, height: cell.height };
        for (let d = depth - 1; d >= 0; --d) {
            const child = this.box[d + 1];
            const gap = d === depth - 1 ? gapOfCells : 6 + 0.03 * child.height;
            const columns = columnsOf(levels[d].count, child.width + gap, child.height + gap);
            const rows = Math.ceil(levels[d].count / columns);
            const inside = { width: columns * (child.width + gap) - gap, height: rows * (child.height + gap) - gap };
            const pad = d === 0 ? 0 : 4 + 0.01 * inside.height;
            const head = d === 0 ? 0 : 9 + 0.07 * inside.height;
            this.box[d] = { width: inside.width + 2 * pad, height: inside.height + 2 * pad + head, columns, rows, gap, pad, head };
        }
        this.slots = this.span[0];
        this.width = this.box[0].width;
        this.height = this.box[0].height;
    }

    /** The upper left corner of child `i` of a box of depth `d`, from the box's own. */
    offset(d, i) {
        const { columns, gap, pad, head } = this.box[d];
        const child = this.box[d + 1];
        return {
            x: pad + (i % columns) * (child.width + gap),
            y: pad + head + Math.floor(i / columns) * (child.height + gap),
        };
    }

    /** The upper left corner of a slot's cell. */
    corner(slot) {
        let x = 0;
        let y = 0;
        for (let d = 0; d < this.depth; ++d) {
            const by = this.offset(d, Math.floor(slot / this.span[d + 1]));
            slot %= this.span[d + 1];
            x += by.x;
            y += by.y;
        }
        return { x, y };
    }

    /** The slot whose cell is at a point, -1 between cells. */
    slotAt(x, y) {
        let slot = 0;
        for (let d = 0; d < this.depth; ++d) {
            const { columns, gap, pad, head } = this.box[d];
            const child = this.box[d + 1];
            x -= pad;
            y -= pad + head;
            const column = Math.floor(x / (child.width + gap));
            const row = Math.floor(y / (child.height + gap));
            const i = row * columns + column;
            x -= column * (child.width + gap);
            y -= row * (child.height + gap);
            if (column < 0 || column >= columns || row < 0 || i >= this.levels[d].count || x > child.width || y > child.height)
                return -1;
            slot += i * this.span[d + 1];
        }
        return slot;
    }

    /** Calls `visit(depth, index in its parent, first slot, x, y)` for each box and cell that the view meets, boxes before
     *  what is in them; what `visit` answers false for is not entered. */
    each(view, visit) {
        const enter = (d, first, x, y) => {
            const { columns, rows, gap, pad, head } = this.box[d];
            const child = this.box[d + 1];
            const range = (from, to, start, step, count) => [
                Math.max(0, Math.floor((from - start) / step)),
                Math.min(count - 1, Math.floor((to - start) / step)),
            ];
            const [left, right] = range(view.left, view.right, x + pad, child.width + gap, columns);
            const [top, bottom] = range(view.top, view.bottom, y + pad + head, child.height + gap, rows);
            for (let row = top; row <= bottom; ++row)
                for (let column = left; column <= right; ++column) {
                    const i = row * columns + column;
                    if (i >= this.levels[d].count) return;
                    const by = this.offset(d, i);
                    const slot = first + i * this.span[d + 1];
                    if (visit(d + 1, i, slot, x + by.x, y + by.y) && d + 1 < this.depth) enter(d + 1, slot, x + by.x, y + by.y);
                }
        };
        enter(0, 0, 0, 0);
    }
}
