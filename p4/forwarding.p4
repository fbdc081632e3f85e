// IPv4 with ECMP: the longest prefix gives a group of next hops, and a hash of the flow picks one.
// The next hop of a flow with its own path is found by both addresses, and that of a sum by its tree:
// two trees may have the same nodes and take different links.
//
// Each switch multiplies the hash by its own odd number. Otherwise, switches of two tiers would
// make the same choice, because CRCs of the same flow differ only by constants.

control Forwarding(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    bit<32> flow;

    action route(bit<16> first, bit<16> count, bit<32> multiplier) {
        hash(flow, HashAlgorithm.crc32, 64w0,
             { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, hdr.ports.src, hdr.ports.dst },
             64w0x100000000);
        flow = flow * multiplier;
        meta.next_hop = first + (bit<16>) ((bit<32>) flow[31:16] * (bit<32>) count >> 16);
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    action via(bit<16> next_hop) {
        meta.next_hop = next_hop;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    action drop() {
        mark_to_drop(std);
    }

    action forward(bit<9> port, mac_t source, mac_t destination) {
        std.egress_spec = port;
        hdr.ethernet.src = source;
        hdr.ethernet.dst = destination;
    }

    table sums {
        key = {
            hdr.ina.tree: exact;
            hdr.ipv4.dst: exact;
        }
        actions = { via; NoAction; }
        default_action = NoAction();
        size = TREES;
    }

    table flows {
        key = {
            hdr.ipv4.src: exact;
            hdr.ipv4.dst: exact;
        }
        actions = { via; NoAction; }
        default_action = NoAction();
        size = FLOWS;
    }

    table routes {
        key = { hdr.ipv4.dst: lpm; }
        actions = { route; drop; }
        default_action = drop();
        size = 1024;
    }

    table next_hops {
        key = { meta.next_hop: exact; }
        actions = { forward; drop; }
        default_action = drop();
        size = 1024;
    }

    apply {
        // The checksum is computed again, over a header without options.
        if (hdr.ipv4.ttl <= 1 || hdr.ipv4.version != 4 || hdr.ipv4.ihl != 5) {
            drop();
        } else if (meta.members != 0 && sums.apply().hit || flows.apply().hit
                   || routes.apply().hit) {
            next_hops.apply();
        }
    }
}
