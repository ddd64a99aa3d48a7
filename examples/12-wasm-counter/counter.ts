// The counter of example 01 in AssemblyScript: canonical documents in, canonical documents out.
//
//    asc counter.ts -O --runtime stub --use abort= --outFile counter.wasm
//
// The two globals are exported so that an instance can be restored and used again.

const CEILING: u64 = 10;

export let number: u64 = 0; // the one in the last head that was read
export let end: usize = 0; // where the next byte of the answer goes

/* Room for the input and, behind it, for an answer that repeats its name. */
export function alloc(size: u32): usize {
  const need = <u32>__heap_base + size * 2 + 4096;
  const have = <u32>memory.size() << 16;
  if (need > have) memory.grow(((need - have) >> 16) + 1);
  return __heap_base;
}

/* ---- reading ---- */

function head(at: usize): usize {
  let more: u32 = load<u8>(at++) & 31;
  number = more;
  if (more < 24) return at;
  number = 0;
  for (more = 1 << (more - 24); more; more--) number = (number << 8) | load<u8>(at++);
  return at;
}

function skip(at: usize): usize {
  const major = load<u8>(at) >> 5;
  at = head(at);
  let count = <u32>number;
  if (major < 2 || major == 7) return at;
  if (major < 4) return at + count;
  for (count <<= major == 5 ? 1 : 0; count; count--) at = skip(at);
  return at;
}

function same(at: usize, text: string): bool {
  for (let i = 0; i < text.length; i++)
    if (load<u8>(at + i) != <u8>text.charCodeAt(i)) return false;
  return true;
}

/* The value of a key in a map; a missing one is a trap. */
function find(at: usize, key: string): usize {
  at = head(at);
  for (let left = <u32>number; left; left--) {
    at = head(at);
    const found = <u32>number;
    if (found == <u32>key.length && same(at, key)) return at + found;
    at = skip(at + found);
  }
  return unreachable();
}

/* ---- writing ---- */

function byte(value: u32): void {
  store<u8>(end++, <u8>value);
}

function text(said: string): void {
  for (let i = 0; i < said.length; i++) byte(said.charCodeAt(i));
}

function more(n: u64): u32 {
  return n < 24 ? 0 : n < 1 << 8 ? 1 : n < 1 << 16 ? 2 : n >> 32 ? 8 : 4;
}

function put(major: u32, n: u64): void {
  let size = more(n);
  byte(size ? major + 24 + ctz(size) : major + <u32>n);
  while (size--) byte(<u32>(n >> (size * 8)));
}

function state(total: u64, full: bool): void {
  text("\x65state\x58");
  byte(28 + more(total));
  text("\xd9\xd9\xf7\xa2\x65phase\xa1\x64$tag\x64");
  text(full ? "full" : "open");
  text("\x65total");
  put(0, total);
}

function event(name: usize, total: u64): void {
  const size = <u32>(skip(name) - name);
  text("\x6ddomain_events\x81\xa2\x65value");
  put(0x40, 16 + size + more(total));
  text("\xd9\xd9\xf7\xa2\x64name");
  memory.copy(end, name, size);
  end += size;
  text("\x65total");
  put(0, total);
  text("\x66schema\x6ecounter/Full@1");
}

function begin(out: usize, fields: u32): void {
  end = out;
  text("\xd9\xd9\xf7");
  byte(0xa0 + fields);
}

function done(out: usize): u64 {
  return (<u64>out << 32) | <u64>(end - out);
}

/* ---- the program ---- */

export function init(at: usize, size: u32): u64 {
  begin(at + size, 1);
  state(0, false);
  return done(at + size);
}

export function counter(at: usize, size: u32): u64 {
  const out = at + size;
  let given = head(find(find(at + 3, "event"), "value")) + 3;
  let held = find(at + 3, "state");
  if (load<u8>(find(given, "$tag")) == 0x65) { // Reset has five letters, Add has three
    begin(out, 1);
    text("\x65state\xf6");
    return done(out);
  }
  if (load<u8>(held) == 0xf6) {
    begin(out, 2);
    text("\x65state\xf6\x67metrics\xa1\x67ignored\x01");
    return done(out);
  }
  given = find(given, "$value");
  held = head(held) + 3;
  head(find(held, "total"));
  let total = number;
  if (load<u8>(find(find(held, "phase"), "$tag") + 1) == 0x66) { // full, not open
    begin(out, 2);
    state(total, true);
    text("\x67metrics\xa1\x67ignored\x01");
    return done(out);
  }
  head(find(given, "n"));
  total += number;
  const full = total >= CEILING;
  begin(out, full ? 2 : 1);
  state(total, full);
  if (full) event(find(given, "name"), total);
  return done(out);
}
