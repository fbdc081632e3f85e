// Checksums verified and updated, with and without the payload; hashes of every kind over fields of
// any width, headers that may be missing, and constants; counters; random; log and assert.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> length;
    bit<16> identification; bit<3> flags; bit<13> offset;
    bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst;
}
header udp_t { bit<16> src; bit<16> dst; bit<16> length; bit<16> checksum; }
header odd_t { bit<3> a; bit<7> b; bit<1> c; bit<90> wide; int<11> number; bit<8> tail; }
header results_t {
    bit<16> csum16; bit<16> crc16; bit<32> crc32; bit<16> xor16; bit<64> identity;
    bit<16> constant; bit<32> based; bit<200> big; bit<32> missing; bit<8> flags; bit<8> dice;
}
struct headers_t { results_t results; ethernet_t ethernet; ipv4_t ipv4; udp_t udp; odd_t odd; }
struct metadata_t { bit<12> twelve; int<5> five; bit<100> hundred; bit<16> protocol_number; bit<32> dice; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x0800: ipv4;
            0x88b8: odd;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        meta.protocol_number = (bit<16>)hdr.ipv4.protocol;
        transition select(hdr.ipv4.protocol, hdr.ipv4.ihl) { (17, 5): udp; default: accept; }
    }
    state udp { packet.extract(hdr.udp); transition accept; }
    state odd { packet.extract(hdr.odd); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && hdr.ipv4.ihl == 5,
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.identification,
              hdr.ipv4.flags, hdr.ipv4.offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
        verify_checksum_with_payload(hdr.udp.isValid() && hdr.udp.checksum != 0,
            { hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.protocol, hdr.udp.length,
              hdr.udp.src, hdr.udp.dst, hdr.udp.length },
            hdr.udp.checksum, HashAlgorithm.csum16);
    }
}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(4, CounterType.packets) by_packets;
    counter(4, CounterType.bytes) by_bytes;
    direct_counter(CounterType.packets_and_bytes) by_type;
    direct_counter(CounterType.packets) by_port;

    action note(bit<8> flags) { hdr.results.flags = hdr.results.flags | flags; by_type.count(); }
    table types {
        key = { hdr.ethernet.type: exact; }
        actions = { note; NoAction; }
        default_action = NoAction();
        counters = by_type;
        size = 8;
    }
    table ports {
        key = { hdr.udp.dst: range; hdr.udp.isValid(): exact; }
        actions = { note; NoAction; }
        counters = by_port;
        const entries = {
            (0 .. 1023, true): note(0x10);
            (1024 .. 65535, true): note(0x20);
        }
    }
    apply {
        hdr.results.setValid();
        std.egress_spec = 2;
        log_msg("a packet of {} bytes", { std.packet_length });
        assert(hdr.ethernet.isValid() || std.parser_error != error.NoError);
        by_packets.count((bit<32>)std.ingress_port);
        by_bytes.count((bit<32>)std.ingress_port + 1);
        meta.twelve = (bit<12>)hdr.ethernet.src;
        meta.five = -3;
        meta.hundred = (bit<100>)hdr.ethernet.dst << 50 | 0x7;
        if (std.checksum_error == 1) { hdr.results.flags = 1; }

        hash(hdr.results.xor16, HashAlgorithm.xor16, 16w0, { hdr.ethernet.src, 8w0x5a }, 32w0x10000);
        hash(hdr.results.identity, HashAlgorithm.identity, 64w0, { hdr.ethernet.src, meta.twelve, 4w1, meta.hundred }, 64w0x7fffffffffffffff);
        hash(hdr.results.constant, HashAlgorithm.crc16, 16w7, { 100w0x123456789abcdef01, 12w5 }, 16w1000);
        hash(hdr.results.based, HashAlgorithm.crc32_custom, 32w1000, { hdr.ethernet.dst, hdr.ethernet.src }, (bit<32>)hdr.ethernet.type);
        if (hdr.ipv4.isValid()) {
            hash(hdr.results.csum16, HashAlgorithm.csum16, 16w0, { hdr.ethernet.dst, hdr.ipv4.src, 8w0x5a }, 32w0x10000);
            hash(hdr.results.crc32, HashAlgorithm.crc32, 32w0, { meta.twelve, meta.five, meta.hundred, hdr.ipv4.flags }, 64w0x100000000);
        }
        if (hdr.odd.isValid()) {
            hash(hdr.results.crc16, HashAlgorithm.crc16, 16w0, { hdr.odd.a, hdr.odd.b, hdr.odd.c, hdr.odd.wide, hdr.odd.number, 6w0x2a }, 32w0x10000);
            hash(hdr.results.crc32, HashAlgorithm.crc32, 32w0, { meta.hundred, hdr.odd.wide, meta.five, hdr.odd.a }, 64w0);
        }
        hdr.results.big = (bit<200>)hdr.results.identity << 100;
        random(meta.dice, 1, 6);
        if (meta.dice >= 1 && meta.dice <= 6) { hdr.results.dice = 1; }
        types.apply();
        ports.apply();
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
            hdr.udp.dst = hdr.udp.dst + 1;
            if (hdr.ipv4.tos == 1) { truncate(100); }
        }
    }
}
control C(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.identification,
              hdr.ipv4.flags, hdr.ipv4.offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.udp.isValid() && hdr.udp.checksum != 0,
            { hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.protocol, hdr.udp.length,
              hdr.udp.src, hdr.udp.dst, hdr.udp.length },
            hdr.udp.checksum, HashAlgorithm.csum16);
        // What belongs to an invalid header is left out.
        update_checksum(true, { hdr.ethernet.type, hdr.udp.src, hdr.ipv4.flags, hdr.odd.wide, hdr.odd.a, 3w6 },
            hdr.results.missing, HashAlgorithm.crc32);
        update_checksum(hdr.odd.isValid(), { hdr.odd.a, hdr.odd.b, hdr.odd.c, hdr.odd.wide, hdr.odd.number },
            hdr.odd.tail, HashAlgorithm.xor16);
    }
}
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
