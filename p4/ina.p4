// The switch: IPv4 with ECMP, and in-network aggregation for the jobs in its tables.
//
// Aggregation is in the ingress. BMv2 runs one ingress thread, so a packet's reads and
// writes of switch memory never interleave with another packet's.

#include <core.p4>
#include <v1model.p4>

#include "headers.p4"
#include "parser.p4"
#include "flare.p4"
#include "lanes.p4"
#include "pool.p4"
#include "atp.p4"
#include "a2tp.p4"
#include "esa.p4"
#include "switchml.p4"
#include "rack.p4"
#include "netreduce.p4"
#include "omnireduce.p4"
#include "aggregation.p4"
#include "forwarding.p4"
#include "replication.p4"

control InaVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control InaIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(JOBS * 16, CounterType.packets) events;     // job ++ event
    Messages() messages;
    Aggregation() aggregation;
    Forwarding() forwarding;
    bit<16> connection;

    action tell(Style style, bit<12> job, bitmap_t members, bitmap_t sum, bit<32> above,
                ip_t parent, ip_t self, bit<16> group, bit<32> slots, bit<32> node, bit<1> watch) {
        meta.style = style;
        meta.job = job;
        meta.members = members;
        meta.sum = sum;
        meta.above = above;
        meta.node = node;
        meta.parent = parent;
        meta.self = self;
        meta.group = group;
        meta.slots = slots;
        meta.watch = watch;
    }

    action join(Style style, bit<12> job, bitmap_t members, bitmap_t sum, bit<32> above,
                ip_t parent, ip_t self, bit<16> group, bit<32> first, bit<32> slots,
                bit<32> node, bit<1> watch) {
        tell(style, job, members, sum, above, parent, self, group, slots, node, watch);
        meta.fragment = hdr.ina.tree ++ hdr.ina.sequence;
        meta.record.slot = first + hdr.ina.slot;
    }

    action join_connection(bit<16> index, bitmap_t sender, bit<16> number, bit<12> job,
                           bitmap_t members, bitmap_t sum, bit<32> above, ip_t parent,
                           ip_t self, bit<16> group, bit<32> first, bit<32> slots) {
        tell(Style.NETREDUCE, job, members, sum, above, parent, self, group, slots, 0, 0);
        meta.record.slot = first;
        connection = index;
        hdr.ina.setValid();
        hdr.ina.kind = KIND_DATA;
        hdr.ina.flags = 0;
        hdr.ina.tree = number;
        hdr.ina.bitmap = sender;
    }

    action count() {
        events.count((bit<32>) (meta.job ++ (bit<4>) meta.event));
    }

    action drop() {
        mark_to_drop(std);
    }

    // The sum is sent in the switch's name: a host drops packets that seem to come from itself. It
    // lives as long as any other node's packet, however many switches its contributions passed. The
    // source port is the tree's, so that ECMP spreads trees between the same two nodes.
    action send_own() {
        hdr.ipv4.src = meta.self;
        hdr.ports.src = hdr.ports.dst ^ hdr.ina.tree;
        hdr.ipv4.ttl = TIME_TO_LIVE;
        hdr.udp.checksum = 0;
    }

    // Packets that this switch is to sum are addressed to it; all others are only forwarded.
    table trees {
        key = {
            hdr.ipv4.dst: exact;
            hdr.ina.tree: exact;
        }
        actions = { join; NoAction; }
        default_action = NoAction();
        size = TREES;
    }

    table connections {
        key = {
            hdr.ipv4.src: exact;
            hdr.bth.connection: exact;
        }
        actions = { join_connection; NoAction; }
        default_action = NoAction();
        size = CONNECTIONS;
    }

    apply {
        if (hdr.bth.isValid()) {
            // Not if it holds the sum already: from a switch, or from a host that has the sum.
            if (hdr.values.isValid() && hdr.bth.reserved & BTH_SUM == 0) {
                connection = 0;
                if (connections.apply().hit) {
                    messages.apply(hdr, meta, connection);
                }
            }
        } else if (hdr.ina.isValid()) {
            trees.apply();
        } else if (!hdr.ipv4.isValid()) {
            drop();
        }

        bool joined = meta.members != 0;
        if (joined) {
            aggregation.apply(hdr, meta, std);
            count();
        }
        if (std.egress_spec != DROP_PORT) {
            if (joined) {
                send_own();
            }
            if (std.mcast_grp == 0) {
                forwarding.apply(hdr, meta, std);
            }
        }
    }
}

control InaEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<19>>(1) ecn_depth;     // packets at which a port's queue counts as long; 0: never
    Replication() replication;
    Format() format;

    apply {
        if (std.egress_rid != 0) {
            replication.apply(hdr, std);
        }
        if (meta.style == Style.NETREDUCE) {
            format.apply(hdr);
        }
        if (hdr.ina.isValid()) {
            bit<19> depth;
            ecn_depth.read(depth, 0);
            if (depth != 0 && std.deq_qdepth >= depth) {
                hdr.ina.flags = hdr.ina.flags | FLAG_ECN;
                hdr.ipv4.tos = hdr.ipv4.tos | 3;
            }
        }
    }
}

control InaComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(
            hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length,
              hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.offset, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

V1Switch(InaParser(), InaVerifyChecksum(), InaIngress(), InaEgress(), InaComputeChecksum(), InaDeparser()) main;
