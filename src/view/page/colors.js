// The colours of indices.

function channels(color) {
    return [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
}

/** The colours of `size` indices, each as its text, what can be read on it, and a pixel: those of the palette, or where it has
 *  not so many, colours between those of the ramp. */
function colorsOf(size, { palette, ramp }) {
    const made = (rgb) => {
        const [red, green, blue] = rgb.map(Math.round);
        const light = 0.299 * red + 0.587 * green + 0.114 * blue > 130;
        return {
            fill: `rgb(${red}, ${green}, ${blue})`,
            text: light ? "#000000" : "#ffffff",
            pixel: ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0, // as bytes red, green, blue, alpha
        };
    };
    if (size <= palette.length) return palette.slice(0, size).map((color) => made(channels(color)));
    const stops = ramp.map(channels);
    return Array.from({ length: size }, (_, index) => {
        const at = (index / (size - 1)) * (stops.length - 1);
        const low = Math.min(Math.floor(at), stops.length - 2);
        return made(stops[low].map((value, i) => value + (at - low) * (stops[low + 1][i] - value)));
    });
}
