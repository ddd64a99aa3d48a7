/* The counter of example 01 in C: canonical documents in, canonical documents out.

   clang --target=wasm32 -mmutable-globals -O2 -nostdlib -Wl,--no-entry \
         -Wl,--export=__stack_pointer -Wl,-z,stack-size=8192 -o counter.wasm counter.c

   The stack pointer is exported so that an instance can be restored and used again. */

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define EXPORT(name) __attribute__((export_name(name)))
#define CEILING 10

extern u8 __heap_base;

static u64 number; /* the one in the last head that was read */
static u8 *end;    /* where the next byte of the answer goes */

/* Room for the input and, behind it, for an answer that repeats its name. */
EXPORT("alloc") u8 *alloc(u32 size) {
  u32 need = (u32)&__heap_base + size * 2 + 4096, have = __builtin_wasm_memory_size(0) << 16;
  if (need > have) __builtin_wasm_memory_grow(0, ((need - have) >> 16) + 1);
  return &__heap_base;
}

/* ---- reading ---- */

static u8 *head(u8 *at) {
  u32 more = *at++ & 31;
  number = more;
  if (more < 24) return at;
  number = 0;
  for (more = 1u << (more - 24); more; more--) number = number << 8 | *at++;
  return at;
}

static u8 *skip(u8 *at) {
  u32 major = *at >> 5;
  at = head(at);
  u32 count = (u32)number;
  if (major < 2 || major == 7) return at;
  if (major < 4) return at + count;
  for (count <<= major == 5; count; count--) at = skip(at);
  return at;
}

static int same(const u8 *one, const char *other, u32 size) {
  while (size--)
    if (*one++ != (u8)*other++) return 0;
  return 1;
}

/* The value of a key in a map; a missing one is a trap. */
static u8 *find(u8 *at, const char *key, u32 size) {
  at = head(at);
  for (u32 left = (u32)number; left; left--) {
    at = head(at);
    u32 found = (u32)number;
    if (found == size && same(at, key, size)) return at + size;
    at = skip(at + found);
  }
  __builtin_trap();
}

#define FIND(at, key) find(at, key, sizeof key - 1)

/* ---- writing ---- */

static void copy(const void *from, u32 size) {
  for (const u8 *byte = from; size; size--) *end++ = *byte++;
}

#define PUT(text) copy(text, sizeof text - 1)

static u32 more(u64 n) { return n < 24 ? 0 : n < 1 << 8 ? 1 : n < 1 << 16 ? 2 : n >> 32 ? 8 : 4; }

static void put(u8 major, u64 n) {
  u32 size = more(n);
  *end++ = size ? major + 24 + __builtin_ctz(size) : major + n;
  while (size--) *end++ = (u8)(n >> (size * 8));
}

static void state(u64 total, int full) {
  PUT("\x65state\x58");
  *end++ = 28 + more(total);
  PUT("\xd9\xd9\xf7\xa2\x65phase\xa1\x64$tag\x64");
  copy(full ? "full" : "open", 4);
  PUT("\x65total");
  put(0, total);
}

static void event(u8 *name, u64 total) {
  u32 size = (u32)(skip(name) - name);
  PUT("\x6d" "domain_events\x81\xa2\x65value");
  put(0x40, 16 + size + more(total));
  PUT("\xd9\xd9\xf7\xa2\x64name");
  copy(name, size);
  PUT("\x65total");
  put(0, total);
  PUT("\x66schema\x6e" "counter/Full@1");
}

static void begin(u8 *out, int fields) {
  end = out;
  PUT("\xd9\xd9\xf7");
  *end++ = 0xa0 + fields;
}

static u64 done(u8 *out) { return (u64)(u32)out << 32 | (u32)(end - out); }

/* ---- the program ---- */

EXPORT("init") u64 init(u8 *in, u32 size) {
  begin(in + size, 1);
  state(0, 0);
  return done(in + size);
}

EXPORT("counter") u64 counter(u8 *in, u32 size) {
  u8 *out = in + size;
  u8 *given = head(FIND(FIND(in + 3, "event"), "value")) + 3, *held = FIND(in + 3, "state");
  if (*FIND(given, "$tag") == 0x65) { /* Reset has five letters, Add has three */
    begin(out, 1);
    PUT("\x65state\xf6");
    return done(out);
  }
  if (*held == 0xf6) {
    begin(out, 2);
    PUT("\x65state\xf6\x67metrics\xa1\x67ignored\x01");
    return done(out);
  }
  given = FIND(given, "$value");
  held = head(held) + 3;
  head(FIND(held, "total"));
  u64 total = number;
  if (FIND(FIND(held, "phase"), "$tag")[1] == 'f') { /* full, not open */
    begin(out, 2);
    state(total, 1);
    PUT("\x67metrics\xa1\x67ignored\x01");
    return done(out);
  }
  head(FIND(given, "n"));
  total += number;
  int full = total >= CEILING;
  begin(out, 1 + full);
  state(total, full);
  if (full) event(FIND(given, "name"), total);
  return done(out);
}
