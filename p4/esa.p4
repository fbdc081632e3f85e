// What ESA (Wang et al., arXiv 2201.06398) changes in ATP, in this project's reading. A packet has a
// priority, and so has the slot that it claims. A packet of a higher priority than the slot's takes
// the slot: it leaves with the header, bitmap and values that were there, on the way to that
// fragment's own root. A complete sum frees its slot as it leaves. A slot without a priority is
// another protocol's, and stays with its owner.

control Esa(inout headers_t hdr, inout metadata_t meta) {
    // Where a slot's sum goes if it is evicted: the parent, and the number of its bits.
    register<bit<64>>(SLOTS) routes;
    bit<64>  route;
    bitmap_t bitmap;
    bit<8>   marks;

    action hold_route() {
        routes.write(meta.record.slot, meta.parent ++ meta.node);
    }

    action hold_priority() {
        meta.record.marks = hdr.ina.flags & PRIORITY;
    }

    action free() {
        meta.record.contributors = 0;
        meta.record.changed = true;
    }

    action evict() {
        routes.read(route, meta.record.slot);
        hold_route();
        bitmap = meta.record.contributors;
        marks = meta.record.marks;
        meta.record.contributors = hdr.ina.bitmap;
        meta.record.marks = hdr.ina.flags & (PRIORITY | FLAG_OVERFLOW | FLAG_ECN);
        hdr.ina.tree = meta.record.owner[47:32];
        hdr.ina.sequence = meta.record.owner[31:0];
        hdr.ina.bitmap = bitmap;
        hdr.ina.flags = marks | FLAG_COLLISION;
        hdr.ina.next_slot = route[31:0];
        hdr.ipv4.dst = route[63:32];
        meta.operation = LaneOperation.SWAP;
        meta.event = Event.EVICTED;
    }

    apply {
        if (meta.event == Event.COLLISION) {
            bit<8> held = meta.record.marks & PRIORITY;
            if (hdr.ina.slot < meta.slots && held != 0 && hdr.ina.flags & PRIORITY > held
                && hdr.ina.bitmap != meta.members) {
                evict();
            }
        } else {
            if (meta.operation == LaneOperation.STORE) {
                hold_priority();
                hold_route();
            }
            if (meta.event == Event.COMPLETED) {
                free();
            }
        }
    }
}
