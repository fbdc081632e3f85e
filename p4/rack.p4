// What Rina (Chen et al., ICNP 2024) needs from a rack's switch, in this project's reading. The sum
// of the rack leaves as one stream to a rank, whose acknowledgements are multicast. A
// stream from a rank is multicast into the rack, and the members' receipts are merged into one.

control Rack(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Pool() pool;

    apply {
        if (hdr.ina.kind == KIND_RESULT || hdr.ina.kind == KIND_ACK) {
            meta.event = Event.RETURNED;
            std.mcast_grp = meta.group;
        } else {
            pool.apply(hdr, meta, std);
            hdr.ipv4.dst = meta.parent;
        }
    }
}
