// An IPv4 router: longest prefix, TTL, checksum verified and updated, counters, a port that drops.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> length;
    bit<16> identification; bit<3> flags; bit<13> offset;
    bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst;
}
struct headers_t { ethernet_t ethernet; ipv4_t ipv4; }
struct metadata_t { bit<16> flow; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) { 0x0800: ipv4; default: accept; }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        verify(hdr.ipv4.version == 4, error.NoMatch);
        transition accept;
    }
}
control V(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.identification,
              hdr.ipv4.flags, hdr.ipv4.offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(16, CounterType.packets_and_bytes) arrivals;
    direct_counter(CounterType.packets_and_bytes) hits;
    action drop() { mark_to_drop(std); }
    action route(bit<9> port, bit<48> next) {
        std.egress_spec = port;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = next;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    action spread(bit<16> first, bit<16> count) {
        hash(meta.flow, HashAlgorithm.crc16, first,
             { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, 3w5, 13w0x155 }, count);
        std.egress_spec = (bit<9>)meta.flow;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    table routes {
        key = { std.ingress_port: exact; hdr.ipv4.dst: lpm; }
        actions = { route; spread; drop; }
        default_action = drop();
        counters = hits;
        size = 16;
    }
    apply {
        arrivals.count((bit<32>)std.ingress_port);
        if (std.checksum_error == 1 || std.parser_error != error.NoError || hdr.ipv4.ttl <= 1) {
            drop();
        } else if (hdr.ipv4.isValid()) {
            routes.apply();
        } else {
            drop();
        }
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }
control C(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.identification,
              hdr.ipv4.flags, hdr.ipv4.offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
