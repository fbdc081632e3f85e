// Packets that go round again or twice: clones of either kind, resubmit, recirculate, truncate.
//
// The request asks for one operation in ingress and one in egress. Whatever leaves carries a trace
// header that says what egress saw of it.
#include <core.p4>
#include <v1model.p4>

const bit<8> NONE = 0;
const bit<8> CLONE = 1;         // without metadata
const bit<8> CLONE_LIST_1 = 2;  // with the metadata of field list 1
const bit<8> CLONE_LIST_2 = 3;
const bit<8> AGAIN = 4;         // resubmit in ingress, recirculate in egress
const bit<8> AGAIN_LIST_1 = 5;
const bit<8> TRUNCATE = 6;
const bit<8> MULTICAST = 7;
const bit<8> DROP = 8;

header request_t { bit<8> ingress; bit<8> egress; bit<16> session; bit<16> length; bit<8> rounds; bit<8> port; }
header trace_t { bit<8> instance; bit<8> passes; bit<16> port; bit<16> rid; bit<16> length; bit<16> from; bit<16> tag; bit<200> note; }
struct headers_t { trace_t trace; request_t request; }
struct metadata_t {
    @field_list(1)    bit<16>  tag;
    @field_list(1, 2) bit<200> note;
    @field_list(2)    bit<8>   passes;
    bit<16> forgotten;
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        transition select(packet.lookahead<bit<8>>()) {
            0x80 &&& 0x80: trace;
            default: request;
        }
    }
    state trace { packet.extract(hdr.trace); transition request; }
    state request {
        packet.extract(hdr.request);
        hdr.request.rounds = hdr.request.rounds & 3;  // each round may clone, and each clone go round
        transition accept;
    }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(8, CounterType.packets_and_bytes) instances;
    apply {
        if (!hdr.request.isValid()) {
            mark_to_drop(std);
            return;
        }
        instances.count((bit<32>)std.instance_type);
        std.egress_spec = (bit<9>)hdr.request.port;
        meta.tag = meta.tag + (bit<16>)hdr.request.rounds + 100;
        meta.note = meta.note << 8 | (bit<200>)hdr.request.rounds;
        meta.passes = meta.passes + 1;
        meta.forgotten = 0xbeef;
        bit<8> op = hdr.request.ingress;
        hdr.request.ingress = 0xee;
        if (op == CLONE) { clone(CloneType.I2E, (bit<32>)hdr.request.session); }
        else if (op == CLONE_LIST_1) { clone_preserving_field_list(CloneType.I2E, (bit<32>)hdr.request.session, 1); }
        else if (op == CLONE_LIST_2) { clone_preserving_field_list(CloneType.I2E, (bit<32>)hdr.request.session, 2); mark_to_drop(std); }
        else if (op == AGAIN && std.instance_type != 6) { resubmit_preserving_field_list(2); }
        else if (op == AGAIN_LIST_1 && meta.tag < 300) { resubmit_preserving_field_list(1); }
        else if (op == TRUNCATE) { truncate((bit<32>)hdr.request.length); }
        else if (op == MULTICAST) { std.mcast_grp = 1; }
        else if (op == DROP) { mark_to_drop(std); }
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(8, CounterType.packets_and_bytes) instances;
    action trace() {
        hdr.trace.setValid();
        hdr.trace.instance = 0x80 | (bit<8>)std.instance_type;
        hdr.trace.passes = meta.passes;
        hdr.trace.port = (bit<16>)std.egress_port;
        hdr.trace.rid = std.egress_rid;
        hdr.trace.length = (bit<16>)std.packet_length;
        hdr.trace.tag = meta.tag ^ meta.forgotten;
        hdr.trace.from = (bit<16>)std.ingress_port;
        hdr.trace.note = meta.note;
    }
    apply {
        instances.count((bit<32>)std.instance_type);
        trace();
        bit<8> op = hdr.request.egress;
        if (std.instance_type != 2) {
            if (op == CLONE) { clone(CloneType.E2E, (bit<32>)hdr.request.session); }
            else if (op == CLONE_LIST_1) { clone_preserving_field_list(CloneType.E2E, (bit<32>)hdr.request.session, 1); }
            else if (op == CLONE_LIST_2) { clone_preserving_field_list(CloneType.E2E, (bit<32>)hdr.request.session, 2); mark_to_drop(std); }
        }
        if (hdr.request.rounds > 0) {
            if (op == AGAIN) { hdr.request.rounds = hdr.request.rounds - 1; recirculate_preserving_field_list(2); }
            else if (op == AGAIN_LIST_1) { hdr.request.rounds = hdr.request.rounds - 1; recirculate_preserving_field_list(1); }
        }
        if (op == TRUNCATE) { truncate((bit<32>)hdr.request.length); }
        else if (op == DROP) { mark_to_drop(std); }
    }
}
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
