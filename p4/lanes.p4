// Values in switch memory, and their sum: lanes of int32 that wrap around.
//
// With H the top bit of every lane and L all other bits,
//     s = ((x & L) + (y & L)) ^ ((x ^ y) & H)
// adds 64 lanes in one wide addition: the masked operands leave each lane's top bit free to
// take its carry, so none crosses into the next lane (SIMD within a register; Warren,
// Hacker's Delight, 2-18). A lane overflowed where x and y have one sign and s the other.
// BMv2 pays per operation and not per bit.

#if VALUES == 32
const lanes_t H = 1024w0x8000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000;
const lanes_t L = 1024w0x7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff;
#else
const lanes_t H = 2048w0x80000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000;
const lanes_t L = 2048w0x7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff;
#endif

#if VALUES == 256
#define EACH(of) of(a) of(b) of(c) of(d)
#else
#define EACH(of) of(a)
#endif

#define LANE_SUM(x, y) (((x & L) + (y & L)) ^ ((x ^ y) & H))

enum bit<8> LaneOperation {
    NONE  = 0,
    STORE = 1,                  // memory <- packet
    ADD   = 2,                  // memory, packet <- memory + packet
    LOAD  = 3                   // packet <- memory
}

// `watch` asks for `overflow`, which costs about as much as the sum itself.
control Lanes(in LaneOperation operation, in bit<32> slot, in bool watch, out bool overflow,
              inout values_t values) {
#define DECLARE(x) register<lanes_t>(SLOTS) memory_##x; lanes_t held_##x; lanes_t sum_##x;
    EACH(DECLARE)
    lanes_t carried;

    action read() {
#define READ(x) memory_##x.read(held_##x, slot);
        EACH(READ)
    }

    action write() {
#define WRITE(x) memory_##x.write(slot, values.x);
        EACH(WRITE)
    }

    action add() {
#define ADD_UP(x) sum_##x = LANE_SUM(values.x, held_##x);
        EACH(ADD_UP)
    }

    action find_overflow() {
        carried = 0;
#define CARRIED(x) carried = carried | ((values.x ^ sum_##x) & (held_##x ^ sum_##x));
        EACH(CARRIED)
        carried = carried & H;
    }

#ifdef SATURATE
    // Where a lane overflowed, the largest or smallest int32 takes the sum's place.
    action saturate() {
#define MASK(x) (CROSSED(x) | (CROSSED(x) - (CROSSED(x) >> 31)))
#define CROSSED(x) ((values.x ^ sum_##x) & (held_##x ^ sum_##x) & H)
#define LIMIT(x) (L + ((values.x & H) >> 31))
#define SATURATED(x) sum_##x = (sum_##x & ~MASK(x)) | (LIMIT(x) & MASK(x));
        EACH(SATURATED)
    }
#endif

    action keep() {
#define KEEP(x) values.x = sum_##x; memory_##x.write(slot, sum_##x);
        EACH(KEEP)
    }

    action load() {
#define LOAD_UP(x) memory_##x.read(values.x, slot);
        EACH(LOAD_UP)
    }

    apply {
        overflow = false;
        if (operation == LaneOperation.ADD) {
            read();
            add();
            if (watch) {
                find_overflow();
                overflow = carried != 0;
            }
#ifdef SATURATE
            saturate();
#endif
            keep();
        } else if (operation == LaneOperation.STORE) {
            write();
        } else if (operation == LaneOperation.LOAD) {
            load();
        }
    }
}
