// For comparison: the usual layout of values in INA programs, a register array and a header field
// for each value, added one by one. The program is as small as possible: one protocol, no routes,
// no ECN, no answer to retransmissions. VALUES is 32 or 64.

#include <core.p4>
#include <v1model.p4>

#ifndef SLOTS
#define SLOTS 4096
#endif

#define EIGHT(of, p) of(p##0) of(p##1) of(p##2) of(p##3) of(p##4) of(p##5) of(p##6) of(p##7)
#if VALUES == 64
#define EACH(of) EIGHT(of, 0) EIGHT(of, 1) EIGHT(of, 2) EIGHT(of, 3) \
                 EIGHT(of, 4) EIGHT(of, 5) EIGHT(of, 6) EIGHT(of, 7)
#else
#define EACH(of) EIGHT(of, 0) EIGHT(of, 1) EIGHT(of, 2) EIGHT(of, 3)
#endif

const bit<16> INA_PORT = 0xBEE0;
const bit<8> KIND_DATA = 1;
const bit<8> KIND_RESULT = 2;

typedef bit<48> mac_t;
typedef bit<32> ip_t;
typedef bit<64> bitmap_t;

header ethernet_t {
    mac_t   dst;
    mac_t   src;
    bit<16> type;
}

header ipv4_t {
    bit<8>  version_ihl;
    bit<8>  tos;
    bit<16> length;
    bit<16> identification;
    bit<16> offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    ip_t    src;
    ip_t    dst;
}

header udp_t {
    bit<16> src;
    bit<16> dst;
    bit<16> length;
    bit<16> checksum;
}

header ina_t {
    bit<8>   kind;
    bit<8>   flags;
    bit<16>  tree;
    bit<32>  sequence;
    bit<32>  slot;
    bit<32>  next_slot;
    bitmap_t bitmap;
}

header values_t {
#define FIELD(n) bit<32> v##n;
    EACH(FIELD)
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    udp_t      udp;
    ina_t      ina;
    values_t   values;
}

struct metadata_t { }

parser PerValueParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x0800: ipv4;
            default: accept;
        }
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) {
            17: udp;
            default: accept;
        }
    }

    state udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst) {
            INA_PORT: ina;
            default: accept;
        }
    }

    state ina {
        packet.extract(hdr.ina);
        packet.extract(hdr.values);
        transition accept;
    }
}

control PerValueVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control InaIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<32>>(SLOTS)  sequences;
    register<bitmap_t>(SLOTS) contributors;
#define REGISTER(n) register<bit<32>>(SLOTS) memory_##n; bit<32> held_##n;
    EACH(REGISTER)
    bit<32>  sequence;
    bitmap_t there;
    bitmap_t members;
    bit<16>  group;

    action join(bitmap_t all, bit<16> children, ip_t self) {
        members = all;
        group = children;
        hdr.ipv4.src = self;
        hdr.udp.checksum = 0;
    }

    table trees {
        key = {
            hdr.ipv4.dst: exact;
            hdr.ina.tree: exact;
        }
        actions = { join; NoAction; }
        default_action = NoAction();
    }

    action store() {
#define STORE(n) memory_##n.write(hdr.ina.slot, hdr.values.v##n);
        EACH(STORE)
    }

    action add() {
#define ADD(n) memory_##n.read(held_##n, hdr.ina.slot); \
        hdr.values.v##n = hdr.values.v##n + held_##n; \
        memory_##n.write(hdr.ina.slot, hdr.values.v##n);
        EACH(ADD)
    }

    apply {
        members = 0;
        group = 0;
        if (hdr.ina.isValid() && trees.apply().hit) {
            sequences.read(sequence, hdr.ina.slot);
            contributors.read(there, hdr.ina.slot);
            if (there == 0 || sequence != hdr.ina.sequence) {
                there = hdr.ina.bitmap;
                sequences.write(hdr.ina.slot, hdr.ina.sequence);
                store();
            } else if (there & hdr.ina.bitmap == 0) {
                there = there | hdr.ina.bitmap;
                add();
            }
            contributors.write(hdr.ina.slot, there);
            if (there == members) {
                hdr.ina.kind = KIND_RESULT;
                hdr.ina.bitmap = members;
                std.mcast_grp = group;
            } else {
                mark_to_drop(std);
            }
        } else {
            mark_to_drop(std);
        }
    }
}

control InaEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action address(ip_t ip, mac_t source, mac_t destination) {
        hdr.ipv4.dst = ip;
        hdr.ethernet.src = source;
        hdr.ethernet.dst = destination;
    }

    table replicas {
        key = { std.egress_rid: exact; }
        actions = { address; NoAction; }
        default_action = NoAction();
    }

    apply {
        replicas.apply();
    }
}

control PerValueChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(
            hdr.ipv4.isValid(),
            { hdr.ipv4.version_ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.identification,
              hdr.ipv4.offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control PerValueDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(PerValueParser(), PerValueVerify(), InaIngress(), InaEgress(), PerValueChecksum(),
         PerValueDeparser()) main;
