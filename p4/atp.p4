// ATP's best-effort aggregation (Lao et al., NSDI 2021): the host names the slot, the first
// fragment to come claims it, the root's result frees it; whoever finds it taken goes on to the
// root. Jobs may share slots.

control Atp(inout headers_t hdr, inout metadata_t meta, inout record_t record,
            inout standard_metadata_t std, out LaneOperation operation) {
    action free() {
        record.contributors = 0;
        record.changed = true;
    }

    action to_parent() {
        hdr.ipv4.dst = meta.parent;
    }

    apply {
        operation = LaneOperation.NONE;
        bool new = record.contributors & hdr.ina.bitmap == 0;
        bool held = false;

        if (hdr.ina.kind == KIND_RESULT || hdr.ina.kind == KIND_ACK) {
            meta.event = Event.RETURNED;
            if (record.same) {
                free();
                meta.event = Event.FREED;
            }
            std.mcast_grp = meta.group;
        } else if (hdr.ina.flags & FLAG_FLOATS != 0) {
            meta.event = Event.PASSED;
            to_parent();
        } else if (hdr.ina.flags & FLAG_RESEND != 0) {
            // Somebody waited in vain: what there is goes to the root, and is not summed again.
            meta.event = Event.PASSED;
            if (record.same) {
                operation = new ? LaneOperation.ADD : LaneOperation.LOAD;
                hdr.ina.bitmap = record.contributors | (new ? hdr.ina.bitmap : 0);
                free();
                meta.event = Event.FLUSHED;
            }
            to_parent();
        } else if (record.there && record.contributors == 0) {
            record.owner = meta.fragment;
            record.contributors = hdr.ina.bitmap;
            record.marks = 0;
            record.claimed = true;
            operation = LaneOperation.STORE;
            meta.event = Event.STORED;
            held = true;
        } else if (record.same && new) {
            record.contributors = record.contributors | hdr.ina.bitmap;
            hdr.ina.bitmap = record.contributors;
            record.changed = true;
            operation = LaneOperation.ADD;
            meta.event = Event.ADDED;
            held = true;
        } else if (record.same) {
            // A duplicate: of use only where the sum went missing further up.
            hdr.ina.bitmap = record.contributors;
            operation = LaneOperation.LOAD;
            held = true;
            meta.event = Event.DUPLICATE;
        } else {
            hdr.ina.flags = hdr.ina.flags | FLAG_COLLISION;
            meta.event = Event.COLLISION;
            to_parent();
        }

        // What is in the slot goes up when it is complete; until then the packet ends here.
        if (held) {
            if (record.contributors != meta.members) {
                mark_to_drop(std);
            } else if (meta.event != Event.DUPLICATE) {
                meta.event = Event.COMPLETED;
            }
            to_parent();
        }
    }
}
