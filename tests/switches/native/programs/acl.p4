// A packet filter over ternary, range and exact keys, some of its entries fixed by the program.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header flow_t { bit<32> src; bit<32> dst; bit<16> sport; bit<16> dport; bit<8> protocol; bit<3> flags; bit<13> rest; }
header verdict_t { bit<8> rule; bit<8> class; bit<16> seen; }
struct headers_t { ethernet_t ethernet; verdict_t verdict; flow_t flow; }
struct metadata_t { bit<8> class; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.flow);
        transition accept;
    }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<16>>(4) seen;
    action drop() { mark_to_drop(std); exit; }
    action permit(bit<8> rule) { hdr.verdict.setValid(); hdr.verdict.rule = rule; }
    action classify(bit<8> class) { meta.class = class; }
    table rules {
        key = {
            hdr.flow.src: ternary;
            hdr.flow.dport: range;
            hdr.flow.protocol: exact;
        }
        actions = { drop; permit; }
        default_action = drop();
        size = 64;
    }
    table classes {
        key = { hdr.flow.flags: exact; hdr.flow.rest: ternary; }
        actions = { classify; NoAction; }
        const entries = {
            (1, 0x1000 &&& 0x1f00): classify(10);
            (1, _): classify(11);
            (2, 0x0001 &&& 0x0001): classify(20);
            (2, 0x0000 &&& 0x0001): classify(21);
            (7, 0x1fff): classify(70);
        }
        default_action = NoAction();
    }
    apply {
        rules.apply();
        switch (classes.apply().action_run) {
            classify: {
                bit<16> n;
                seen.read(n, (bit<32>)meta.class & 3);
                n = n |+| 0x7001;
                seen.write((bit<32>)meta.class & 3, n);
                hdr.verdict.seen = n;
            }
            default: { meta.class = 255; }
        }
        hdr.verdict.class = meta.class;
        std.egress_spec = std.ingress_port;
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { if (std.packet_length > 60) { hdr.verdict.rule = 99; } }
}
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
