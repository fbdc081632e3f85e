// Meters of packets and of bytes, and a table that meters its entries; the colours leave in a header.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<40> src; bit<8> flow; bit<16> type; }
header colours_t { bit<8> packets; bit<8> bytes; bit<8> entry; }
struct headers_t { colours_t colours; ethernet_t ethernet; }
struct metadata_t { bit<2> colour; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start { packet.extract(hdr.ethernet); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    meter(4, MeterType.packets) by_packets;
    meter(4, MeterType.bytes) by_bytes;
    direct_meter<bit<2>>(MeterType.packets) by_entry;
    direct_counter(CounterType.packets) hits;
    action note() { by_entry.read(meta.colour); hits.count(); }
    table flows {
        key = { hdr.ethernet.type: ternary; }
        actions = { note; NoAction; }
        default_action = NoAction();
        meters = by_entry;
        counters = hits;
        size = 8;
    }
    apply {
        std.egress_spec = 1;
        hdr.colours.setValid();
        if (hdr.ethernet.flow < 4) {
            by_packets.execute_meter((bit<32>)hdr.ethernet.flow, hdr.colours.packets);
            by_bytes.execute_meter((bit<32>)hdr.ethernet.flow, hdr.colours.bytes);
        }
        meta.colour = 3;
        flows.apply();
        hdr.colours.entry = (bit<8>)meta.colour;
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
