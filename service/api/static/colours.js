/** Colour scale of weights, and rendering of a weight matrix with one pixel per cell. */

const RAMPS = {
  light: ["#faf7f1", "#f7e3c4", "#f0b27a", "#d9703e", "#a83a1c", "#5a1710"],
  dark: ["#211e1a", "#45261b", "#843a1f", "#cb6531", "#f3a860", "#fdebc8"],
};
const SHADES = 256;

/** Paint row by row, 0 in the palest and `most` in the strongest colour. */
export function paint(canvas, weights, most) {
  const rows = weights.length;
  const columns = weights[0]?.length ?? 0;
  canvas.width = Math.max(1, columns);
  canvas.height = Math.max(1, rows);
  if (!columns) return;
  const shades = table(document.documentElement.dataset.theme);
  const picture = new ImageData(columns, rows);
  weights.flat().forEach((weight, i) => {
    const shade = Math.round(Math.min(1, weight / (most || 1)) * (SHADES - 1));
    picture.data.set(shades.subarray(4 * shade, 4 * shade + 4), 4 * i);
  });
  canvas.getContext("2d").putImageData(picture, 0, 0);
}

export const mostOf = (weights) => weights.reduce((most, row) => Math.max(most, ...row), 0);

function table(theme) {
  const stops = (RAMPS[theme] ?? RAMPS.light).map(channels);
  const shades = new Uint8ClampedArray(4 * SHADES);
  for (let shade = 0; shade < SHADES; shade += 1) {
    const along = (shade / (SHADES - 1)) * (stops.length - 1);
    const left = Math.min(Math.floor(along), stops.length - 2);
    const part = along - left;
    stops[left].forEach((value, channel) => {
      shades[4 * shade + channel] = value + part * (stops[left + 1][channel] - value);
    });
    shades[4 * shade + 3] = 255;
  }
  return shades;
}

const channels = (colour) => [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
