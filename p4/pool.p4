// A contribution to a slot of a pool: decides what it is, and updates the slot's record. Shared
// by the protocols whose hosts reuse a slot only when nobody needs its old content any more.
//
// The outcome is an event. REFUSED: not a slot of this job, or older than the slot's. STORED and
// ADDED: summed, and others are missing. COMPLETED: summed, and the last one; the packet now
// carries the sum. DUPLICATE: in the slot already; the packet is dropped unless the sum is
// complete, and then carries it.

control Pool(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        bool same = meta.record.contributors != 0 && meta.record.owner == meta.fragment;
        // Sequence numbers wrap around; half of them are ahead of any given one.
        bool older = meta.record.contributors != 0
                     && hdr.ina.sequence - meta.record.owner[31:0] > 0x7fffffff;

        if (same && meta.record.contributors & hdr.ina.bitmap == 0) {
            meta.record.contributors = meta.record.contributors | hdr.ina.bitmap;
            meta.operation = LaneOperation.ADD;
            meta.event = Event.ADDED;
        } else if (same) {
            meta.event = Event.DUPLICATE;
        } else if (older || hdr.ina.slot >= meta.slots) {
            meta.event = Event.REFUSED;
        } else {
            meta.record.contributors = hdr.ina.bitmap;
            meta.record.marks = 0;
            meta.operation = LaneOperation.STORE;
            meta.event = Event.STORED;
        }

        if (meta.event == Event.REFUSED || meta.record.contributors != meta.members) {
            mark_to_drop(std);
        } else {
            hdr.ina.bitmap = meta.members;
            if (meta.event == Event.DUPLICATE) {
                meta.operation = LaneOperation.LOAD;
            } else {
                meta.event = Event.COMPLETED;
            }
        }
    }
}
