// The page around the map: what is said of a rank, the search, the pointer and the keyboard.

// --- What is said

/** `node=3 gpu=1`: where a rank runs, and the names of what is around it. */
function host(rank) {
    const { levels } = data.cluster;
    const path = arrangements.machines.path(rank);
    const names = path.filter((_, d) => levels[d].units).map(({ label }) => label);
    return {
        path: path.map(({ number }, d) => `${levels[d].name}=${number}`).join(" "),
        name: names.join(" "),
    };
}
function say() {
    const rank = focus();
    const status = byId("status");
    const at = rank !== null && data.cluster ? host(rank) : { path: "", name: "" };
    status.textContent = rank === null ? "" : [`rank ${rank}`, mesh.coordinate(mesh.indices(rank)), at.path, at.name].filter(Boolean).join(" · ");
    repaint();
}
function point(rank) {
    if (rank === pointed) return;
    pointed = rank;
    say();
}

function select(rank) {
    selected = rank;
    pointed = null;
    row = null;
    found = null;
    paintRank();
    say();
}

function paintRank() {
    const panel = byId("rank");
    panel.replaceChildren();
    if (selected === null) {
        panel.append(element("p", { className: "none" }, "Click a rank, or find one, to see its coordinate, groups and neighbours."));
        return;
    }
    const indices = mesh.indices(selected);
    panel.append(element("h2", {}, `rank ${selected}`), element("p", { id: "coordinate" }, mesh.coordinate(indices)));
    if (data.cluster) {
        const { path, name } = host(selected);
        panel.append(element("p", { id: "host" }, path));
        if (name) panel.append(element("p", { id: "unit" }, name));
    }
    const body = element("tbody");
    const step = (a, by, name) => {
        const to = mesh.neighbor(selected, a, by);
        if (to === null) return "-";
        const button = element("button", { type: "button" }, `${to}`);
        button.setAttribute("aria-label", `rank ${to}, ${name} along ${mesh.axes[a].name}`);
        button.addEventListener("click", () => {
            select(to);
            if (!isVisible(to)) center(to);
        });
        return button;
    };
    mesh.axes.forEach((axis, a) => {
        const line = element(
            "tr",
            {},
            element("th", { scope: "row" }, axis.name),
            element("td", {}, `${indices[a]}`),
            element("td", {}, step(a, -1, "the one before")),
            element("td", {}, step(a, +1, "the next")),
            element("td", { className: "group" }, notation(mesh.ranksAlong(indices, new Set([a])))),
        );
        line.addEventListener("pointerenter", () => ((row = a), repaint()));
        line.addEventListener("pointerleave", () => ((row = null), repaint()));
        body.append(line);
    });
    const heads = ["axis", "index", "prev", "next", "group"].map((text) => element("th", { scope: "col" }, text));
    panel.append(element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body));
    const set = [...along].sort((one, other) => one - other);
    if (set.length < 2) return;
    const names = set.map((a) => mesh.axes[a].name).join(",");
    panel.append(element("p", { id: "set" }, `${names} ${notation(mesh.ranksAlong(indices, along))}`));
}

function paintLegend() {
    const legend = byId("legend");
    const { name, size } = mesh.axes[colored];
    legend.replaceChildren(element("span", {}, `${name} =`));
    legend.setAttribute("aria-label", `Colours: the index on ${name}, 0 to ${size - 1}`);
    if (size <= data.palette.length) {
        colors.forEach(({ fill, text }, index) => {
            const swatch = element("i", {}, `${index}`);
            swatch.style.background = fill;
            swatch.style.color = text;
            legend.append(swatch);
        });
    } else {
        const bar = element("span", { className: "ramp" });
        bar.style.background = `linear-gradient(to right, ${data.ramp.join(", ")})`;
        legend.append(element("span", {}, "0"), bar, element("span", {}, `${size - 1}`));
    }
}

function paintAxes() {
    const body = byId("axes").tBodies[0];
    mesh.axes.forEach(({ name, size }, a) => {
        const color = element("input", { type: "radio", name: "color", value: name, checked: a === colored });
        color.setAttribute("aria-label", `Colour by ${name}`);
        color.addEventListener("change", () => {
            colored = a;
            recolor();
        });
        const group = element("input", { type: "checkbox", value: name, checked: along.has(a) });
        group.setAttribute("aria-label", `Light up groups along ${name}`);
        group.addEventListener("change", () => {
            if (group.checked) along.add(a);
            else along.delete(a);
            paintRank();
            repaint();
        });
        body.append(element("tr", {}, element("th", { scope: "row" }, name), element("td", {}, `${size}`), element("td", {}, color), element("td", {}, group)));
    });
}

// --- Searching

/** What a search finds: `{rank}`, `{ranks, text}` for part of a coordinate, or `{wrong}` in words. */
function search(text) {
    const words = text.split(/[\s,]+/).filter(Boolean);
    if (words.length === 0) return { wrong: "Type a rank such as 7, or a coordinate such as " + mesh.coordinate(mesh.axes.map(() => 0)) };
    if (words.length === 1 && /^\d+$/.test(words[0])) {
        const rank = Number(words[0]);
        return mesh.indices(rank) ? { rank } : { wrong: `rank ${words[0]} is not in this mesh of ${counted(mesh.size, "rank")} up to ${highest}` };
    }
    const fixed = new Array(mesh.axes.length).fill(null);
    for (const word of words) {
        const [, name, index] = /^([^=]+)=(\d+)$/.exec(word) ?? [];
        if (name === undefined) return { wrong: `'${word}' is neither a rank nor an index such as ${mesh.axes[0].name}=0` };
        const a = mesh.axes.findIndex((axis) => axis.name === name);
        if (a < 0) return { wrong: `no axis '${name}'; the axes are ${mesh.axes.map((axis) => axis.name).join(", ")}` };
        if (fixed[a] !== null) return { wrong: `${name} is given twice` };
        if (Number(index) >= mesh.axes[a].size) return { wrong: `${word}: indices of ${name} are 0 to ${mesh.axes[a].size - 1}` };
        fixed[a] = Number(index);
    }
    const open = new Set(fixed.flatMap((index, a) => (index === null ? [a] : [])));
    const ranks = mesh.ranksAlong(fixed.map((index) => index ?? 0), open);
    return ranks.length === 1 ? { rank: ranks[0] } : { ranks, text: `${ranks.length} ranks: ${notation(ranks, 4)}` };
}

byId("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const answer = search(byId("wanted").value);
    const said = byId("answer");
    said.className = answer.wrong ? "wrong" : "";
    said.textContent = answer.wrong ?? answer.text ?? `rank ${answer.rank}`;
    if (answer.rank !== undefined) {
        select(answer.rank);
        center(answer.rank);
    } else if (answer.ranks) {
        select(null);
        found = answer.ranks;
        fit();
    }
});

// --- The pointer and the keys

let held = null; // where the pointer went down, and what the view was
canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    held = { x: event.offsetX, y: event.offsetY, view, moved: false };
});
canvas.addEventListener("pointermove", (event) => {
    if (!held) return point(rankAtPoint(event.offsetX, event.offsetY));
    const x = event.offsetX - held.x;
    const y = event.offsetY - held.y;
    if (!held.moved && Math.hypot(x, y) < 5) return;
    held.moved = true;
    canvas.classList.add("held");
    view = { scale: view.scale, x: held.view.x - x / view.scale, y: held.view.y - y / view.scale };
    repaint();
});
function release(event) {
    if (!held) return;
    if (event.type === "pointerup" && !held.moved) select(rankAtPoint(event.offsetX, event.offsetY));
    held = null;
    canvas.classList.remove("held");
}
canvas.addEventListener("pointerup", release);
canvas.addEventListener("pointercancel", release);
canvas.addEventListener("pointerleave", () => held || point(null));
canvas.addEventListener(
    "wheel",
    (event) => {
        event.preventDefault();
        const pixels = event.deltaMode === 1 ? 30 * event.deltaY : event.deltaY;
        zoom(Math.exp(-Math.max(-300, Math.min(300, pixels)) / 400), event.offsetX, event.offsetY);
    },
    { passive: false },
);

/** The nearest rank in a direction, on the line through the middle of this one. */
function beside(rank, right, down) {
    const { x, y } = plan.corner(slotOf.get(rank));
    let atX = x + cell.width / 2;
    let atY = y + cell.height / 2;
    while (atX >= 0 && atY >= 0 && atX <= plan.width && atY <= plan.height) {
        atX += (right * cell.width) / 2;
        atY += (down * cell.height) / 2;
        const slot = plan.slotAt(atX, atY);
        if (slot >= 0 && rankOf[slot] >= 0 && rankOf[slot] !== rank) return rankOf[slot];
    }
    return rank;
}
const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const arrow = arrows[event.key];
    if (arrow) {
        const next = focus() === null ? rankOf.find((rank) => rank >= 0) : beside(focus(), ...arrow);
        point(next);
        if (!isVisible(next)) center(next);
    } else if (event.key === "Enter" || event.key === " ") {
        if (pointed !== null) select(pointed);
    } else if (event.key === "+" || event.key === "=") {
        zoom(1.4);
    } else if (event.key === "-") {
        zoom(1 / 1.4);
    } else if (event.key === "0") {
        fit();
    } else {
        return;
    }
    event.preventDefault();
});
document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
        select(null);
        byId("answer").textContent = "";
    } else if (event.key === "/" && event.target !== byId("wanted")) {
        event.preventDefault();
        byId("wanted").focus();
    }
});

byId("in").addEventListener("click", () => zoom(1.4));
byId("out").addEventListener("click", () => zoom(1 / 1.4));
byId("fit").addEventListener("click", fit);
const choice = byId("arrange");
for (const name of Object.keys(arrangements)) choice.append(element("option", { value: name }, name));
byId("arrangement").hidden = choice.length < 2;
choice.addEventListener("change", () => {
    arrange(choice.value);
    fit();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readTheme();
    repaint();
});

// --- The first picture

byId("mesh").textContent = data.mesh;
byId("summary").textContent = counted(mesh.size, "rank") + (data.cluster ? ` on ${data.cluster.text}` : "");
canvas.setAttribute("aria-label", `${counted(mesh.size, "rank")} of ${data.mesh}; arrow keys go from rank to rank, Enter selects one`);
byId("wanted").placeholder = `${highest} or ${mesh.coordinate(mesh.axes.map(() => 0))}`;
readTheme();
paintAxes();
arrange(choice.options[0].value);
select(data.focus);
let whole = true; // until somebody moves the picture, it fills the canvas
new ResizeObserver(() => {
    if (whole) fit();
    else repaint();
}).observe(canvas);
for (const type of ["pointerdown", "wheel", "keydown", "submit", "click"]) document.addEventListener(type, () => (whole = false), { once: true });
