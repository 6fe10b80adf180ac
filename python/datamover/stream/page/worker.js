// SPDX-License-Identifier: BSD-3-Clause
// Worker of the page: parses messages of the stream and verifies their checksums.
"use strict";

importScripts("crc32c.js");

const MAGIC = 0x31464d44; // DMF1
const HEADER_BYTES = 48;

onmessage = (event) => {
  const buffer = event.data;
  const begin = performance.now();
  const bytes = new Uint8Array(buffer);
  const view = new DataView(buffer);
  const isWhole = bytes.length >= HEADER_BYTES && view.getUint32(0, true) === MAGIC;
  if (!isWhole || crc32c(bytes.subarray(8)) !== view.getUint32(4, true)) {
    postMessage({ damaged: true, bytes: bytes.length });
    return;
  }
  const checkedMs = performance.now() - begin;
  postMessage({ ...read(buffer, view), bytes: bytes.length, checkedMs }, [buffer]);
};

function read(buffer, view) {
  const nameBytes = view.getUint32(8, true);
  const rows = view.getUint32(12, true);
  const columns = view.getUint32(16, true);
  const at = Math.ceil((HEADER_BYTES + nameBytes) / 8) * 8;
  const elems = new Float32Array(buffer, at, rows * columns);
  return {
    name: new TextDecoder().decode(new Uint8Array(buffer, HEADER_BYTES, nameBytes)),
    rows,
    columns,
    elems,
    every: view.getUint32(20, true),
    viewNumber: view.getUint32(24, true),
    step: view.getBigInt64(32, true).toString(),
    count: Number(view.getBigUint64(40, true)),
    ...range(elems),
  };
}

function range(elems) {
  let low = Infinity;
  let high = -Infinity;
  let otherLow = Infinity;
  let otherHigh = -Infinity;
  let rest = 0; // NaN where a value is NaN or infinite
  const end = elems.length - 1;
  for (let i = 0; i < end; i += 2) { // two by two: either waits for its own comparisons alone
    const value = elems[i];
    const other = elems[i + 1];
    if (value < low) low = value;
    if (value > high) high = value;
    if (other < otherLow) otherLow = other;
    if (other > otherHigh) otherHigh = other;
    rest += value - value + (other - other);
  }
  const last = elems[end];
  if (rest !== 0 || last - last !== 0) return rangeOfFinite(elems);
  [low, high] = [Math.min(low, otherLow, last), Math.max(high, otherHigh, last)];
  return { low, high, nans: 0, areFinite: true };
}

// The same where some values are NaN or infinite, or where there are none.
function rangeOfFinite(elems) {
  let low = Infinity;
  let high = -Infinity;
  let nans = 0;
  for (let i = 0; i < elems.length; i++) {
    const value = elems[i];
    if (value !== value) nans++;
    else if (value - value === 0) { // not infinite
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return { ...(low <= high ? { low, high } : { low: 0, high: 0 }), nans, areFinite: false };
}
