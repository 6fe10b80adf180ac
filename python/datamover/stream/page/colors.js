// SPDX-License-Identifier: BSD-3-Clause
// Color maps: anchors at equal distances, as red, green and blue in hexadecimal digits, with linear
// interpolation between them. Viridis is by S. van der Walt and N. Smith (CC0), here within 1 of
// 255 of all its colors; RdBu is ColorBrewer's by C. Brewer, reversed. Both are as in Matplotlib.
"use strict";

const COLOR_MAPS = {
  "viridis":
    "44015446085c471063481769481d6f482475472a7a46307e453781433d844142873f48893d4e8a3a538b38598c" +
    "355e8d33638d31688e2e6d8e2c718e2a768e297b8e27808e25848e23898e218e8d20928c1f978b1e9c891fa188" +
    "21a58524aa8328ae802eb37c35b7793dbc7446c06f50c46a5ac86465cb5e70cf577cd25089d54895d840a2da37" +
    "b0dd2fbddf26cae11fd8e219e5e419f1e51dfde725",
  "blue to red": "0530612166ac4393c392c5ded1e5f0f7f7f7fddbc7f4a582d6604db2192c67001f",
};

// In no map.
const NAN_COLOR = "ff2bd6";

// Give the 256 colors of a map as pixels of a canvas; the last one twice, for the end of the range.
function pixelsOfMap(name) {
  const anchors = COLOR_MAPS[name].match(/.{6}/g).map(channelsOf);
  const pixels = new Uint32Array(257);
  for (let i = 0; i < 256; i++) {
    const place = (i / 255) * (anchors.length - 1);
    const [below, above] = [anchors[Math.floor(place)], anchors[Math.ceil(place)]];
    pixels[i] = pixelOf(below.map((value, k) => value + (place % 1) * (above[k] - value)));
  }
  pixels[256] = pixels[255];
  return pixels;
}

const channelsOf = (digits) => [0, 2, 4].map((i) => parseInt(digits.slice(i, i + 2), 16));
const pixelOf = (channels) => new Uint32Array(new Uint8ClampedArray([...channels, 255]).buffer)[0];
const pixelOfColor = (digits) => pixelOf(channelsOf(digits));
