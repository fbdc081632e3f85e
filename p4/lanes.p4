// Values in switch memory, and their sum: 256 lanes of int32 that wrap around.
//
// With H the top bit of every lane and L all other bits,
//     s = ((x & L) + (y & L)) ^ ((x ^ y) & H)
// adds 64 lanes in one wide addition: the masked operands leave each lane's top bit free to
// take its carry, so none crosses into the next lane (SIMD within a register; Warren,
// Hacker's Delight, 2-18). BMv2 pays per operation and not per bit.

const lanes_t H = 2048w0x80000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000800000008000000080000000;
const lanes_t L = 2048w0x7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff7fffffff;

#define LANE_SUM(x, y) (((x & L) + (y & L)) ^ ((x ^ y) & H))

enum bit<8> LaneOperation {
    NONE  = 0,
    STORE = 1,                  // memory <- packet
    ADD   = 2,                  // memory, packet <- memory + packet
    LOAD  = 3                   // packet <- memory
}

control Lanes(in LaneOperation operation, in bit<32> slot, inout values_t values) {
    register<lanes_t>(SLOTS) memory_a;
    register<lanes_t>(SLOTS) memory_b;
    register<lanes_t>(SLOTS) memory_c;
    register<lanes_t>(SLOTS) memory_d;
    lanes_t held_a;
    lanes_t held_b;
    lanes_t held_c;
    lanes_t held_d;

    action read() {
        memory_a.read(held_a, slot);
        memory_b.read(held_b, slot);
        memory_c.read(held_c, slot);
        memory_d.read(held_d, slot);
    }

    action write() {
        memory_a.write(slot, values.a);
        memory_b.write(slot, values.b);
        memory_c.write(slot, values.c);
        memory_d.write(slot, values.d);
    }

    action add() {
        values.a = LANE_SUM(values.a, held_a);
        values.b = LANE_SUM(values.b, held_b);
        values.c = LANE_SUM(values.c, held_c);
        values.d = LANE_SUM(values.d, held_d);
    }

    action load() {
        memory_a.read(values.a, slot);
        memory_b.read(values.b, slot);
        memory_c.read(values.c, slot);
        memory_d.read(values.d, slot);
    }

    apply {
        if (operation == LaneOperation.ADD) {
            read();
            add();
            write();
        } else if (operation == LaneOperation.STORE) {
            write();
        } else if (operation == LaneOperation.LOAD) {
            load();
        }
    }
}
