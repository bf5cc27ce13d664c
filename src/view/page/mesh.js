// The mesh: coordinates, groups and neighbours, computed from sizes and strides, or from the table of a placement.

/** A mesh of axes, outermost first; with `ranks`, the rank at each position. */
class Mesh {
    constructor({ axes, offset, ranks }) {
        this.axes = axes.map(({ name, digits }) => ({
            name,
            digits: digits.map(([size, stride]) => ({ size, stride })),
            size: digits.reduce((product, [size]) => product * size, 1),
        }));
        this.offset = offset;
        this.size = this.axes.reduce((product, axis) => product * axis.size, 1);
        this.values = []; // of each digit, while a rank is taken apart
        let place = 0;
        for (const axis of this.axes) for (const digit of axis.digits) digit.place = place++;
        this.digits = this.axes.flatMap((axis) => axis.digits).sort((one, other) => other.stride - one.stride);
        this.ranks = ranks;
        this.positions = ranks && new Map(ranks.map((rank, position) => [rank, position]));
    }

    /** The indices of a rank, outermost first; null if the mesh does not contain it. */
    indices(rank) {
        if (this.positions) {
            const position = this.positions.get(rank);
            return position === undefined ? null : this.indicesAt(position);
        }
        let rest = rank - this.offset;
        if (!Number.isInteger(rest) || rest < 0) return null;
        for (const digit of this.digits) {
            const value = Math.floor(rest / digit.stride);
            if (value >= digit.size) return null;
            rest -= value * digit.stride;
            this.values[digit.place] = value;
        }
        if (rest !== 0) return null;
        return this.axes.map((axis) =>
            axis.digits.reduce((index, digit) => index * digit.size + this.values[digit.place], 0));
    }

    /** The rank at these indices. */
    rankAt(indices) {
        if (this.ranks) return this.ranks[this.positionAt(indices)];
        let rank = this.offset;
        this.axes.forEach((axis, a) => {
            let index = indices[a];
            for (let k = axis.digits.length - 1; k >= 0; --k) {
                rank += (index % axis.digits[k].size) * axis.digits[k].stride;
                index = Math.floor(index / axis.digits[k].size);
            }
        });
        return rank;
    }

    /** Positions count the mesh row by row, the last axis fastest. */
    positionAt(indices) {
        return this.axes.reduce((position, axis, a) => position * axis.size + indices[a], 0);
    }
    indicesAt(position) {
        const indices = new Array(this.axes.length);
        for (let a = this.axes.length - 1; a >= 0; --a) {
            indices[a] = position % this.axes[a].size;
            position = Math.floor(position / this.axes[a].size);
        }
        return indices;
    }

    /** The ranks at these indices but for the axes of `along`, where all are, in mesh order. */
    ranksAlong(indices, along) {
        const all = [];
        const at = [...indices];
        const walk = (a) => {
            if (a === this.axes.length) {
                all.push(this.rankAt(at));
            } else if (along.has(a)) {
                for (let index = 0; index < this.axes[a].size; ++index) {
                    at[a] = index;
                    walk(a + 1);
                }
            } else {
                walk(a + 1);
            }
        };
        walk(0);
        return all;
    }

    /** The rank `by` steps along an axis, null past an end. */
    neighbor(rank, axis, by) {
        const indices = this.indices(rank);
        indices[axis] += by;
        return indices[axis] < 0 || indices[axis] >= this.axes[axis].size ? null : this.rankAt(indices);
    }

    /** `pp=1 dp=0 tp=3`. */
    coordinate(indices) {
        return this.axes.map((axis, a) => axis.name + "=" + indices[a]).join(" ");
    }
}

/** `{0..7, 64..71}`: ranks in the notation of the command, at most `most` terms of them. */
function notation(ranks, most = 16) {
    const terms = [];
    let i = 0;
    while (i < ranks.length && terms.length < most) {
        const step = i + 1 < ranks.length ? ranks[i + 1] - ranks[i] : 0;
        let end = i + 1;
        while (end < ranks.length && ranks[end] - ranks[end - 1] === step) ++end;
        if (end - i < (step === 1 ? 3 : 5)) {
            end = i + 1;
            terms.push(`${ranks[i]}`);
        } else {
            terms.push(step === 1 ? `${ranks[i]}..${ranks[end - 1]}` : `${ranks[i]}, ${ranks[i + 1]}, ..., ${ranks[end - 1]}`);
        }
        i = end;
    }
    if (i < ranks.length) terms.push(`… ${ranks.length - i} more`);
    return `{${terms.join(", ")}}`;
}
