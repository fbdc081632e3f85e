// The values in switch memory and their addition: lanes of int32 with wrap-around.
//
// With H the top bit of every lane and L all other bits,
//     s = ((x & L) + (y & L)) ^ ((x ^ y) & H)
// adds 64 lanes in one wide addition. The masked operands leave each lane's top bit free to
// take the carry, so no carry crosses into the next lane (SIMD within a register; Warren,
// Hacker's Delight, 2-18). A lane overflows if x and y have the same sign and s has the other.
// BMv2's cost is per operation, not per bit.

#if VALUES == 8
const lanes_t H = 256w0x8000000080000000800000008000000080000000800000008000000080000000;
const lanes_t L = 256w0x7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff;
#elif VALUES == 32
const lanes_t H = 1024w0x8000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000;
const lanes_t L = 1024w0x7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff;
#else
const lanes_t H = 2048w0x80000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000;
const lanes_t L = 2048w0x7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff;
#endif

#define LANE_SUM(x, y) (((x & L) + (y & L)) ^ ((x ^ y) & H))

// The top bit of `(x & L) + (y & L)` is the carry into it. A lane overflows if x and y have the same
// sign and the carry differs from it. Only the top bits of this value have a meaning.
#define OVERFLOWN(x, y) ((x ^ y ^ H) & (x ^ ((x & L) + (y & L))))

// `watch` marks packets in which a lane overflows; the check costs about as much as the sum.
control Lanes(in LaneOperation operation, in bit<32> slot, in bit<1> watch, inout bit<8> flags,
              inout values_t values) {
#define DECLARE(x) register<lanes_t>(SLOTS) memory_##x; lanes_t held_##x;
    EACH(DECLARE)

    action read() {
#define READ(x) memory_##x.read(held_##x, slot);
        EACH(READ)
    }

    action write() {
#define WRITE(x) memory_##x.write(slot, values.x);
        EACH(WRITE)
    }

    action swap() {
#define SWAP_IN(x) values.x = held_##x;
        EACH(SWAP_IN)
    }

    action mark() {
        flags = flags | FLAG_OVERFLOW;
    }

#ifdef SATURATE
    // If a lane overflowed, the largest or smallest int32 replaces its sum.
#define TOP(x)   (OVERFLOWN(values.x, held_##x) & H)
#define MASK(x)  (TOP(x) | (TOP(x) - (TOP(x) >> 31)))
#define LIMIT(x) (L + ((values.x & H) >> 31))
#define SUM(x)   ((LANE_SUM(values.x, held_##x) & ~MASK(x)) | (LIMIT(x) & MASK(x)))
#else
#define SUM(x)   LANE_SUM(values.x, held_##x)
#endif

    action add() {
#define ADD_UP(x) values.x = SUM(x); memory_##x.write(slot, values.x);
        EACH(ADD_UP)
    }

    action merge() {
#define MERGE_UP(x)                                                                        \
        lanes_t theirs_##x = PAIRS_KEPT(held_##x, values.x);                               \
        values.x = PAIRS_KEPT(values.x, held_##x);                                         \
        values.x = PAIRS_TOGETHER(values.x, theirs_##x);                                   \
        memory_##x.write(slot, values.x);
        EACH(MERGE_UP)
    }

    action load() {
#define LOAD_UP(x) memory_##x.read(values.x, slot);
        EACH(LOAD_UP)
    }

    apply {
        if (operation == LaneOperation.ADD) {
            read();
            if (watch == 1) {
#define CHECK(x) | OVERFLOWN(values.x, held_##x)
                if ((0 EACH(CHECK)) & H != 0) {
                    mark();
                }
            }
            add();
        } else if (operation == LaneOperation.MERGE) {
            read();
            merge();
        } else if (operation == LaneOperation.STORE) {
            write();
        } else if (operation == LaneOperation.LOAD) {
            load();
        } else if (operation == LaneOperation.SWAP) {
            read();
            write();
            swap();
        }
    }
}
