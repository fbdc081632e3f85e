// Sums 256 values of 32 bits over the workers of a slot, and multicasts the sum.
#include <core.p4>
#include <v1model.p4>

typedef bit<2048> lanes_t;
const lanes_t H = (lanes_t)64w0x8000000080000000 * 2048w0x00000000000000010000000000000001000000000000000100000000000000010000000000000001000000000000000100000000000000010000000000000001000000000000000100000000000000010000000000000001000000000000000100000000000000010000000000000001000000000000000100000000000000010000000000000001000000000000000100000000000000010000000000000001000000000000000100000000000000010000000000000001000000000000000100000000000000010000000000000001000000000000000100000000000000010000000000000001000000000000000100000000000000010000000000000001;
const lanes_t L = ~H;
#define SUM(x, y) (((x & L) + (y & L)) ^ ((x ^ y) & H))

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header slot_t { bit<32> slot; bit<16> fanin; bit<8> overflow; bit<8> worker; }
header values_t { lanes_t a; lanes_t b; lanes_t c; lanes_t d; }
struct headers_t { ethernet_t ethernet; slot_t slot; values_t values; }
struct metadata_t { }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) { 0x88b5: slot; default: accept; }
    }
    state slot {
        packet.extract(hdr.slot);
        packet.extract(hdr.values);
        transition accept;
    }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<16>>(1024) arrived;
    register<lanes_t>(1024) memory_a;
    register<lanes_t>(1024) memory_b;
    register<lanes_t>(1024) memory_c;
    register<lanes_t>(1024) memory_d;
    bit<16> count;
    lanes_t a;
    lanes_t b;
    lanes_t c;
    lanes_t d;

    action fetch() {
        memory_a.read(a, hdr.slot.slot);
        memory_b.read(b, hdr.slot.slot);
        memory_c.read(c, hdr.slot.slot);
        memory_d.read(d, hdr.slot.slot);
    }
    action add() {
        hdr.values.a = SUM(hdr.values.a, a);
        hdr.values.b = SUM(hdr.values.b, b);
        hdr.values.c = SUM(hdr.values.c, c);
        hdr.values.d = SUM(hdr.values.d, d);
    }
    action keep() {
        memory_a.write(hdr.slot.slot, hdr.values.a);
        memory_b.write(hdr.slot.slot, hdr.values.b);
        memory_c.write(hdr.slot.slot, hdr.values.c);
        memory_d.write(hdr.slot.slot, hdr.values.d);
    }
    apply {
        if (!hdr.values.isValid() || hdr.slot.slot >= 1024) {
            mark_to_drop(std);
            return;
        }
        arrived.read(count, hdr.slot.slot);
        count = count + 1;
        if (count > 1) {
            fetch();
            bit<2048> before = hdr.values.a;
            add();
            if (((before ^ hdr.values.a) & (a ^ hdr.values.a) & H) != 0) {
                hdr.slot.overflow = 1;
            }
        }
        if (count == hdr.slot.fanin) {
            arrived.write(hdr.slot.slot, 0);
            std.mcast_grp = 1;
        } else {
            keep();
            arrived.write(hdr.slot.slot, count);
            mark_to_drop(std);
        }
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action address(bit<48> mac) { hdr.ethernet.dst = mac; }
    action skip() { mark_to_drop(std); }
    table replicas {
        key = { std.egress_rid: exact; }
        actions = { address; skip; NoAction; }
        default_action = NoAction();
    }
    apply { replicas.apply(); }
}
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
