// Source routing and labels: header stacks in parser loops, with lookahead, last, lastIndex, runtime
// indices; pushed, popped, copied and compared.
#include <core.p4>
#include <v1model.p4>

const bit<16> TYPE_ROUTED = 0x88b7;
const bit<16> TYPE_LABELS = 0x8847;

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header hop_t { bit<1> last; bit<15> port; }
header label_t { bit<20> label; bit<3> class; bit<1> bottom; bit<8> ttl; }
header ip_t { bit<4> version; bit<4> rest; bit<8> protocol; }
header report_t { bit<8> hops; bit<8> labels; bit<8> last_hop; bit<8> last_label; bit<32> label; bit<16> problem; bit<16> length; }
struct headers_t {
    report_t   report;
    ethernet_t ethernet;
    hop_t[6]   hops;
    label_t[3] labels;
    label_t[3] saved;
    ip_t       ip4;
    ip_t       ip6;
}
struct metadata_t { bit<32> hops; bit<8> labels; bit<4> nibble; bit<15> port; bit<32> last; }

error { TooManyHops, NoBottom }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TYPE_ROUTED: hops;
            TYPE_LABELS: labels;
            0x0800: payload;
            default: accept;
        }
    }
    state hops {
        packet.extract(hdr.hops.next);
        meta.hops = meta.hops + 1;
        verify(hdr.hops.lastIndex < 5, error.TooManyHops);
        transition select(hdr.hops.last.last) {
            0: hops;
            1: after_hops;
        }
    }
    state after_hops {
        transition select(packet.lookahead<bit<32>>()[8:8], packet.lookahead<label_t>().ttl) {
            (1, 0): payload;
            (_, 1 .. 254): labels;
            default: payload;
        }
    }
    state labels {
        packet.extract(hdr.labels.next);
        meta.last = hdr.labels.lastIndex;
        meta.labels = meta.labels + 1;
        transition select(hdr.labels.last.bottom, meta.labels) {
            (1, _): payload;
            (0, 1 .. 2): labels;
            default: no_bottom;
        }
    }
    state no_bottom { verify(false, error.NoBottom); transition accept; }
    state payload {
        meta.nibble = packet.lookahead<bit<4>>();
        transition select(meta.nibble) {
            4: ip4;
            6: ip6;
            default: accept;
        }
    }
    state ip4 { packet.extract(hdr.ip4); transition accept; }
    state ip6 { packet.extract(hdr.ip6); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
// Works on a copy of the metadata, which p4c makes of the parameter.
action discard(inout standard_metadata_t metadata) { mark_to_drop(metadata); }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action swap(bit<20> label, bit<9> port) {
        hdr.labels[0].label = label;
        hdr.labels[0].ttl = hdr.labels[0].ttl - 1;
        if (hdr.labels[0].ttl > 1) { hdr.saved[2] = hdr.labels[0]; }
        std.egress_spec = port;
    }
    action push(bit<20> label, bit<9> port) {
        hdr.labels.push_front(1);
        hdr.labels[0].setValid();
        hdr.labels[0] = { label, 5, 0, 64 };
        std.egress_spec = port;
    }
    action push_two(bit<20> first, bit<20> second, bit<9> port) {
        hdr.labels.push_front(2);
        hdr.labels[0].setValid();
        hdr.labels[0].label = first;
        hdr.labels[1].setValid();
        hdr.labels[1].label = second;
        hdr.labels[1].class = 7;
        std.egress_spec = port;
    }
    action pop(bit<9> port) {
        hdr.labels.pop_front(1);
        std.egress_spec = port;
    }
    action pop_two(bit<9> port) {
        hdr.labels.pop_front(2);
        std.egress_spec = port;
    }
    table labels {
        key = { hdr.labels[0].label: exact; hdr.labels[0].class: ternary; hdr.labels[1].isValid(): exact; }
        actions = { swap; push; push_two; pop; pop_two; discard(std); }
        default_action = discard(std);
        size = 64;
    }
    apply {
        hdr.report.setValid();
        if (std.parser_error == error.TooManyHops) { hdr.report.problem = 1; }
        else if (std.parser_error == error.NoBottom) { hdr.report.problem = 2; }
        else if (std.parser_error == error.PacketTooShort) { hdr.report.problem = 3; }
        else if (std.parser_error == error.StackOutOfBounds) { hdr.report.problem = 4; }
        else if (std.parser_error == error.NoMatch) { hdr.report.problem = 5; }
        else if (std.parser_error != error.NoError) { hdr.report.problem = 6; }
        hdr.report.hops = (bit<8>)meta.hops;
        std.egress_spec = 3;
        if (hdr.hops[0].isValid()) {
            std.egress_spec = (bit<9>)hdr.hops[0].port & 3;
            if (meta.hops > 2) {
                // An element that is chosen while the packet is there
                meta.port = hdr.hops[meta.hops - 2].port;
                hdr.hops[meta.hops - 1].port = meta.port ^ 0x1234;
            }
            hdr.hops.pop_front(1);
        }
        if (hdr.labels[0].isValid()) {
            hdr.saved = hdr.labels;
            labels.apply();
            if (hdr.labels[1] == hdr.saved[0]) { hdr.report.label = 0xaaaa0000 | (bit<32>)hdr.labels[1].class; }
            else if (hdr.labels[0] != hdr.saved[0]) { hdr.report.label = (bit<32>)hdr.saved[0].label; }
            if (hdr.ip4.isValid()) { hdr.saved[0].setInvalid(); }
            if (hdr.ip6.isValid()) { hdr.saved.pop_front(3); }
        }
        hdr.report.last_label = (bit<8>)meta.last;
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        hdr.report.length = (bit<16>)std.packet_length;
        if (hdr.labels[0].isValid() && hdr.labels[0].ttl == 1) { hdr.labels.push_front(3); }
        if (hdr.labels[2].isValid()) { hdr.report.labels = 3; }
        else if (hdr.labels[1].isValid()) { hdr.report.labels = 2; }
        else if (hdr.labels[0].isValid()) { hdr.report.labels = 1; }
    }
}
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
