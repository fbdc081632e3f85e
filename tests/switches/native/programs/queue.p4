// Says in every packet how long its port's queue is, and marks it where that is too long.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header queue_t { bit<32> enqueued; bit<32> dequeued; bit<8> mark; }
struct headers_t { ethernet_t ethernet; queue_t queue; }
struct metadata_t { }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start { packet.extract(hdr.ethernet); packet.extract(hdr.queue); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { std.egress_spec = 2; }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        hdr.queue.enqueued = (bit<32>)std.enq_qdepth;
        hdr.queue.dequeued = (bit<32>)std.deq_qdepth;
        if (std.deq_qdepth >= 20) { hdr.queue.mark = 1; }
    }
}
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
