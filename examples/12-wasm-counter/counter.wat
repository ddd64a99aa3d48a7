;; The counter of example 01, by hand: canonical documents in, canonical documents out.
;; Memory: keys and fixed pieces of the answer, then the input from 4096 on, then the answer.
(module
  (memory (export "memory") 1)
  (global $val (export "val") (mut i64) (i64.const 0))  ;; the number in the last head that was read
  (global $end (export "end") (mut i32) (i32.const 0))  ;; where the next byte of the answer goes

  (data (i32.const 0) "event")
  (data (i32.const 8) "value")
  (data (i32.const 16) "$tag")
  (data (i32.const 24) "state")
  (data (i32.const 32) "total")
  (data (i32.const 40) "phase")
  (data (i32.const 48) "$value")
  (data (i32.const 56) "n")
  (data (i32.const 64) "name")
  (data (i32.const 112) "\65state\58")
  (data (i32.const 128) "\d9\d9\f7\a2\65phase\a1\64$tag\64")
  (data (i32.const 160) "openfull")
  (data (i32.const 168) "\65total")
  (data (i32.const 176) "\67metrics\a1\67ignored\01")
  (data (i32.const 200) "\6ddomain_events\81\a2\65value")
  (data (i32.const 224) "\d9\d9\f7\a2\64name")
  (data (i32.const 240) "\66schema\6ecounter/Full@1")

  ;; Room for the input and, behind it, for an answer that repeats its name.
  (func (export "alloc") (param $len i32) (result i32)
    (local $lack i32)
    (local.set $lack (i32.sub
      (i32.add (i32.const 8192) (i32.mul (local.get $len) (i32.const 2)))
      (i32.mul (memory.size) (i32.const 65536))))
    (if (i32.gt_s (local.get $lack) (i32.const 0))
      (then (drop (memory.grow (i32.add (i32.shr_u (local.get $lack) (i32.const 16)) (i32.const 1))))))
    (i32.const 4096))

  ;; ---- reading ----

  ;; Behind the head at $p; its number goes to $val.
  (func $head (param $p i32) (result i32)
    (local $n i32)
    (local.set $n (i32.and (i32.load8_u (local.get $p)) (i32.const 31)))
    (local.set $p (i32.add (local.get $p) (i32.const 1)))
    (global.set $val (i64.extend_i32_u (local.get $n)))
    (if (i32.lt_u (local.get $n) (i32.const 24)) (then (return (local.get $p))))
    (local.set $n (i32.shl (i32.const 1) (i32.sub (local.get $n) (i32.const 24))))
    (global.set $val (i64.const 0))
    (loop $more
      (global.set $val (i64.or
        (i64.shl (global.get $val) (i64.const 8)) (i64.load8_u (local.get $p))))
      (local.set $p (i32.add (local.get $p) (i32.const 1)))
      (br_if $more (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $p))

  ;; Behind the whole item at $p.
  (func $skip (param $p i32) (result i32)
    (local $major i32) (local $n i32)
    (local.set $major (i32.shr_u (i32.load8_u (local.get $p)) (i32.const 5)))
    (local.set $p (call $head (local.get $p)))
    (local.set $n (i32.wrap_i64 (global.get $val)))
    (if (i32.or (i32.lt_u (local.get $major) (i32.const 2)) (i32.eq (local.get $major) (i32.const 7)))
      (then (return (local.get $p))))
    (if (i32.lt_u (local.get $major) (i32.const 4))
      (then (return (i32.add (local.get $p) (local.get $n)))))
    (if (i32.eq (local.get $major) (i32.const 5))
      (then (local.set $n (i32.shl (local.get $n) (i32.const 1)))))
    (block $done (loop $more
      (br_if $done (i32.eqz (local.get $n)))
      (local.set $p (call $skip (local.get $p)))
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (br $more)))
    (local.get $p))

  (func $same (param $a i32) (param $b i32) (param $n i32) (result i32)
    (loop $more
      (if (i32.ne (i32.load8_u (local.get $a)) (i32.load8_u (local.get $b)))
        (then (return (i32.const 0))))
      (local.set $a (i32.add (local.get $a) (i32.const 1)))
      (local.set $b (i32.add (local.get $b) (i32.const 1)))
      (br_if $more (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (i32.const 1))

  ;; The value of a key in the map at $p; a missing one is a trap.
  (func $find (param $p i32) (param $key i32) (param $len i32) (result i32)
    (local $left i32) (local $size i32)
    (local.set $p (call $head (local.get $p)))
    (local.set $left (i32.wrap_i64 (global.get $val)))
    (loop $more
      (if (i32.eqz (local.get $left)) (then unreachable))
      (local.set $p (call $head (local.get $p)))
      (local.set $size (i32.wrap_i64 (global.get $val)))
      (if (i32.eq (local.get $size) (local.get $len))
        (then (if (call $same (local.get $p) (local.get $key) (local.get $len))
          (then (return (i32.add (local.get $p) (local.get $len)))))))
      (local.set $p (call $skip (i32.add (local.get $p) (local.get $size))))
      (local.set $left (i32.sub (local.get $left) (i32.const 1)))
      (br $more))
    (unreachable))

  ;; ---- writing ----

  (func $byte (param $b i32)
    (i32.store8 (global.get $end) (local.get $b))
    (global.set $end (i32.add (global.get $end) (i32.const 1))))

  (func $copy (param $from i32) (param $len i32)
    (memory.copy (global.get $end) (local.get $from) (local.get $len))
    (global.set $end (i32.add (global.get $end) (local.get $len))))

  ;; How many bytes follow the first one of a head with this number.
  (func $more (param $n i64) (result i32)
    (if (i64.lt_u (local.get $n) (i64.const 24)) (then (return (i32.const 0))))
    (if (i64.lt_u (local.get $n) (i64.const 0x100)) (then (return (i32.const 1))))
    (if (i64.lt_u (local.get $n) (i64.const 0x10000)) (then (return (i32.const 2))))
    (if (i64.lt_u (local.get $n) (i64.const 0x100000000)) (then (return (i32.const 4))))
    (i32.const 8))

  (func $number (param $major i32) (param $n i64)
    (local $size i32)
    (local.set $size (call $more (local.get $n)))
    (if (i32.eqz (local.get $size)) (then
      (call $byte (i32.or (local.get $major) (i32.wrap_i64 (local.get $n))))
      (return)))
    (call $byte (i32.add
      (local.get $major) (i32.add (i32.const 24) (i32.ctz (local.get $size)))))
    (loop $next
      (local.set $size (i32.sub (local.get $size) (i32.const 1)))
      (call $byte (i32.wrap_i64 (i64.shr_u
        (local.get $n) (i64.extend_i32_u (i32.shl (local.get $size) (i32.const 3))))))
      (br_if $next (local.get $size))))

  ;; The answer begins: a map of so many fields, the first of which is the state.
  (func $begin (param $at i32) (param $fields i32)
    (global.set $end (local.get $at))
    (call $byte (i32.const 0xd9)) (call $byte (i32.const 0xd9)) (call $byte (i32.const 0xf7))
    (call $byte (i32.add (i32.const 0xa0) (local.get $fields))))

  (func $none
    (call $copy (i32.const 112) (i32.const 6))
    (call $byte (i32.const 0xf6)))

  (func $state (param $total i64) (param $full i32)
    (call $copy (i32.const 112) (i32.const 7))
    (call $byte (i32.add (i32.const 28) (call $more (local.get $total))))
    (call $copy (i32.const 128) (i32.const 17))
    (call $copy (i32.add (i32.const 160) (i32.shl (local.get $full) (i32.const 2))) (i32.const 4))
    (call $copy (i32.const 168) (i32.const 6))
    (call $number (i32.const 0) (local.get $total)))

  (func $event (param $name i32) (param $total i64)
    (local $size i32)
    (local.set $size (i32.sub (call $skip (local.get $name)) (local.get $name)))
    (call $copy (i32.const 200) (i32.const 22))
    (call $number (i32.const 0x40) (i64.extend_i32_u (i32.add
      (i32.add (i32.const 16) (local.get $size)) (call $more (local.get $total)))))
    (call $copy (i32.const 224) (i32.const 9))
    (call $copy (local.get $name) (local.get $size))
    (call $copy (i32.const 168) (i32.const 6))
    (call $number (i32.const 0) (local.get $total))
    (call $copy (i32.const 240) (i32.const 22)))

  (func $done (param $at i32) (result i64)
    (i64.or
      (i64.shl (i64.extend_i32_u (local.get $at)) (i64.const 32))
      (i64.extend_i32_u (i32.sub (global.get $end) (local.get $at)))))

  ;; ---- the program ----

  (func (export "init") (param $in i32) (param $len i32) (result i64)
    (local $out i32)
    (local.set $out (i32.add (local.get $in) (local.get $len)))
    (call $begin (local.get $out) (i32.const 1))
    (call $state (i64.const 0) (i32.const 0))
    (call $done (local.get $out)))

  (func (export "counter") (param $in i32) (param $len i32) (result i64)
    (local $out i32) (local $event i32) (local $state i32) (local $total i64) (local $full i32)
    (local.set $out (i32.add (local.get $in) (local.get $len)))
    (local.set $in (i32.add (local.get $in) (i32.const 3)))
    (local.set $event (call $find (local.get $in) (i32.const 0) (i32.const 5)))
    (local.set $event (call $head (call $find (local.get $event) (i32.const 8) (i32.const 5))))
    (local.set $event (i32.add (local.get $event) (i32.const 3)))
    (local.set $state (call $find (local.get $in) (i32.const 24) (i32.const 5)))
    ;; Reset has five letters, Add has three.
    (if (i32.eq (i32.const 0x65)
        (i32.load8_u (call $find (local.get $event) (i32.const 16) (i32.const 4))))
      (then
        (call $begin (local.get $out) (i32.const 1))
        (call $none)
        (return (call $done (local.get $out)))))
    (if (i32.eq (i32.load8_u (local.get $state)) (i32.const 0xf6))
      (then
        (call $begin (local.get $out) (i32.const 2))
        (call $none)
        (call $copy (i32.const 176) (i32.const 18))
        (return (call $done (local.get $out)))))
    (local.set $event (call $find (local.get $event) (i32.const 48) (i32.const 6)))
    (local.set $state (i32.add (call $head (local.get $state)) (i32.const 3)))
    (drop (call $head (call $find (local.get $state) (i32.const 32) (i32.const 5))))
    (local.set $total (global.get $val))
    (local.set $state (call $find (local.get $state) (i32.const 40) (i32.const 5)))
    (local.set $state (call $find (local.get $state) (i32.const 16) (i32.const 4)))
    ;; The phase is full or open: its first letter tells.
    (if (i32.eq (i32.load8_u offset=1 (local.get $state)) (i32.const 0x66))
      (then
        (call $begin (local.get $out) (i32.const 2))
        (call $state (local.get $total) (i32.const 1))
        (call $copy (i32.const 176) (i32.const 18))
        (return (call $done (local.get $out)))))
    (drop (call $head (call $find (local.get $event) (i32.const 56) (i32.const 1))))
    (local.set $total (i64.add (local.get $total) (global.get $val)))
    (local.set $full (i64.ge_u (local.get $total) (i64.const 10)))
    (call $begin (local.get $out) (i32.add (i32.const 1) (local.get $full)))
    (call $state (local.get $total) (local.get $full))
    (if (local.get $full) (then (call $event
      (call $find (local.get $event) (i32.const 64) (i32.const 4)) (local.get $total))))
    (call $done (local.get $out))))
