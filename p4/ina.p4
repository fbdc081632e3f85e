// The switch: IPv4 with ECMP, and in-network aggregation for the jobs it is told of.
//
// Aggregation lies in the ingress: BMv2 runs one ingress thread, so that a packet's reads and
// writes of switch memory are not interleaved with another's.

#include <core.p4>
#include <v1model.p4>

#include "headers.p4"
#include "parser.p4"
#include "lanes.p4"
#include "atp.p4"
#include "forwarding.p4"

control InaVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control InaIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Atp() atp;
    Forwarding() forwarding;

    action aggregate(bitmap_t members, ip_t parent, ip_t self, bit<16> group) {
        meta.members = members;
        meta.parent = parent;
        meta.group = group;
        // The sum is this switch's own packet; a host drops one that seems to come from itself.
        hdr.ipv4.src = self;
        hdr.udp.checksum = 0;
    }

    // A job's packets for this switch are addressed to it; all others only pass through.
    table jobs {
        key = {
            hdr.ipv4.dst: exact;
            hdr.ina.job: exact;
        }
        actions = { aggregate; NoAction; }
        default_action = NoAction();
        size = 256;
    }

    apply {
        if (!hdr.ipv4.isValid()) {
            mark_to_drop(std);
            return;
        }
        if (hdr.values.isValid() && jobs.apply().hit) {
            atp.apply(hdr, meta, std);
        }
        if (std.egress_spec != DROP_PORT && std.mcast_grp == 0) {
            forwarding.apply(hdr, meta, std);
        }
    }
}

control InaEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action address(ip_t ip, mac_t source, mac_t destination) {
        hdr.ipv4.dst = ip;
        hdr.ethernet.src = source;
        hdr.ethernet.dst = destination;
    }

    // A multicast copy is addressed to the child that it is for.
    table replicas {
        key = { std.egress_rid: exact; }
        actions = { address; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    apply {
        if (std.egress_rid != 0) {
            replicas.apply();
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
