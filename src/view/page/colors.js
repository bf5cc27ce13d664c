// The colours of indices.

function channels(color) {
    return [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
}

/** WCAG's relative luminance of a colour, from 0 for black to 1 for white. */
function luminanceOf(rgb) {
    const [red, green, blue] = rgb.map((channel) => {
        const c = channel / 255;
        return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** The colours of `size` indices, each as its text, what can be read on it, and a pixel: those of the palette, or where it has
 *  not so many, colours between those of the ramp. */
function colorsOf(size, { palette, ramp }) {
    const made = (rgb) => {
        const [red, green, blue] = rgb.map(Math.round);
        return {
            fill: `rgb(${red}, ${green}, ${blue})`,
            text: luminanceOf(rgb) > 0.179 ? "#000000" : "#ffffff", // a contrast of at least 4.58
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
