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

/** The places of the slots of a tree: `levels` are `{name, count}`, outermost first, and slots count its leaves in order.
 *  `count` is how many of a level each unit of the one outside holds; where that lists its units by name, each has its own. */
class Plan {
    constructor(levels, cell) {
        const depth = levels.length;
        this.levels = levels;
        this.depth = depth;
        // By depth, 0 is all: of each box the number of its first child, and its first slot; one more closes the last.
        this.firstChild = [];
        for (let d = 0, boxes = 1; d < depth; ++d) {
            const named = d > 0 ? levels[d - 1].units : undefined;
            const first = new Int32Array(boxes + 1);
            for (let box = 0; box < boxes; ++box) first[box + 1] = first[box] + (named ? named[box][1] : levels[d].count);
            this.firstChild.push(first);
            boxes = first[boxes];
        }
        this.firstSlot = [];
        for (let d = depth - 1; d >= 0; --d)
            this.firstSlot[d] = d === depth - 1 ? this.firstChild[d] : this.firstChild[d].map((child) => this.firstSlot[d + 1][child]);
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
        this.slots = this.firstSlot[0][1];
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

    /** Of a box of depth `d` the child in which a slot is. */
    childOf(d, box, slot) {
        if (d === this.depth - 1) return slot;
        let low = this.firstChild[d][box];
        let high = this.firstChild[d][box + 1];
        while (high - low > 1) {
            const middle = (low + high) >> 1;
            if (this.firstSlot[d + 1][middle] <= slot) low = middle;
            else high = middle;
        }
        return low;
    }

    /** By depth, what a slot is in: the number of the box in the one around it, and its label. */
    path(slot) {
        const path = [];
        for (let d = 0, box = 0; d < this.depth; ++d) {
            const child = this.childOf(d, box, slot);
            path.push({ number: child - this.firstChild[d][box], label: this.label(d + 1, child, child - this.firstChild[d][box]) });
            box = child;
        }
        return path;
    }

    /** `node 3`, or the name of a box that has one. */
    label(d, box, number) {
        const { name, units } = this.levels[d - 1];
        return units ? units[box][0] : `${name} ${number}`;
    }

    /** The upper left corner of a slot's cell. */
    corner(slot) {
        let x = 0;
        let y = 0;
        for (let d = 0, box = 0; d < this.depth; ++d) {
            const child = this.childOf(d, box, slot);
            const by = this.offset(d, child - this.firstChild[d][box]);
            box = child;
            x += by.x;
            y += by.y;
        }
        return { x, y };
    }

    /** The slot whose cell is at a point, -1 between cells. */
    slotAt(x, y) {
        let box = 0;
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
            const count = this.firstChild[d][box + 1] - this.firstChild[d][box];
            if (column < 0 || column >= columns || row < 0 || i >= count || x > child.width || y > child.height) return -1;
            box = this.firstChild[d][box] + i;
        }
        return box;
    }

    /** Calls `visit(depth, box, its number in the one around it, x, y)` for each box and cell that the view meets, boxes before
     *  what is in them; what `visit` answers false for is not entered. The number of a cell among all is its slot. */
    each(view, visit) {
        const range = (from, to, start, step, count) => [
            Math.max(0, Math.floor((from - start) / step)),
            Math.min(count - 1, Math.floor((to - start) / step)),
        ];
        const enter = (d, box, x, y) => {
            const { columns, rows, gap, pad, head } = this.box[d];
            const child = this.box[d + 1];
            const first = this.firstChild[d][box];
            const count = this.firstChild[d][box + 1] - first;
            const [left, right] = range(view.left, view.right, x + pad, child.width + gap, columns);
            const [top, bottom] = range(view.top, view.bottom, y + pad + head, child.height + gap, rows);
            for (let row = top; row <= bottom; ++row)
                for (let column = left; column <= right; ++column) {
                    const i = row * columns + column;
                    if (i >= count) return;
                    const by = this.offset(d, i);
                    if (visit(d + 1, first + i, i, x + by.x, y + by.y) && d + 1 < this.depth) enter(d + 1, first + i, x + by.x, y + by.y);
                }
        };
        enter(0, 0, 0, 0);
    }
}
