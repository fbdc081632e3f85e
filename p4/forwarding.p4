// IPv4 with ECMP: longest prefix to a group of next hops, a hash of the flow picks one.

control Forwarding(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action route(bit<16> first, bit<16> count) {
        hash(meta.next_hop, HashAlgorithm.crc32, first,
             { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, hdr.ports.src, hdr.ports.dst },
             count);
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
        // The checksum is made anew over a header without options.
        if (hdr.ipv4.ttl <= 1 || hdr.ipv4.version != 4 || hdr.ipv4.ihl != 5) {
            drop();
        } else if (routes.apply().hit) {
            next_hops.apply();
        }
    }
}
