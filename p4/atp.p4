// ATP's best-effort aggregation (Lao et al., NSDI 2021). The host names the slot; the first
// fragment to arrive takes it, and the root's result frees it. A packet that finds the slot taken
// is forwarded to the root. Jobs may share slots.

control Atp(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action free() {
        meta.record.contributors = 0;
        meta.record.changed = true;
    }

    action to_parent() {
        hdr.ipv4.dst = meta.parent;
    }

    apply {
        bool same = meta.record.contributors != 0 && meta.record.owner == meta.fragment;
        bool new = meta.record.contributors & hdr.ina.bitmap == 0;
        // A switch below did not sum it, so its bits do not stand for children of this switch.
        bool passes = meta.node != 0 && hdr.ina.next_slot != meta.node;

        if (hdr.ina.kind == KIND_RESULT || hdr.ina.kind == KIND_ACK) {
            meta.event = Event.RETURNED;
            if (same) {
                free();
                meta.event = Event.FREED;
            }
            std.mcast_grp = meta.group;
        } else if (hdr.ina.flags & FLAG_FLOATS != 0 || passes) {
            meta.event = Event.PASSED;
            to_parent();
        } else if (hdr.ina.flags & FLAG_RESEND != 0) {
            // A host timed out: the partial sum goes to the root and is not summed here again.
            meta.event = Event.PASSED;
            if (same) {
                meta.operation = LaneOperation.ADD;
                if (new) {
                    hdr.ina.bitmap = hdr.ina.bitmap | meta.record.contributors;
                } else {
                    meta.operation = LaneOperation.LOAD;
                    hdr.ina.bitmap = meta.record.contributors;
                }
                free();
                meta.event = Event.FLUSHED;
            }
            to_parent();
        } else {
            if (same && new) {
                meta.record.contributors = meta.record.contributors | hdr.ina.bitmap;
                meta.operation = LaneOperation.ADD;
                meta.event = Event.ADDED;
            } else if (same) {
                // A duplicate. It is useful only if the sum was lost further up.
                meta.operation = LaneOperation.LOAD;
                meta.event = Event.DUPLICATE;
            } else if (meta.record.contributors == 0 && hdr.ina.slot < meta.slots) {
                meta.record.contributors = hdr.ina.bitmap;
                meta.record.marks = 0;
                meta.operation = LaneOperation.STORE;
                meta.event = Event.STORED;
            } else {
                hdr.ina.flags = hdr.ina.flags | FLAG_COLLISION;
                meta.event = Event.COLLISION;
            }

            // A complete sum is sent to the parent; until then the packet is dropped here.
            if (meta.event == Event.COLLISION) {
                to_parent();
            } else if (meta.record.contributors != meta.members) {
                mark_to_drop(std);
            } else {
                hdr.ina.bitmap = meta.members;
                if (meta.event != Event.DUPLICATE) {
                    meta.event = Event.COMPLETED;
                }
                to_parent();
            }
        }
    }
}
