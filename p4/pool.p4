// A contribution to a slot of a pool: what it is, and what becomes of the slot's record. Common
// to the styles whose hosts may overwrite a slot, because by then nobody needs what it held.
//
// It ends as an event. REFUSED: no slot of this job, or older than what the slot holds. STORED and
// ADDED: taken, and others are missing. COMPLETED: taken, and the last one, so that the packet now
// carries the sum. DUPLICATE: in the slot already. The packet is dropped unless the sum is complete,
// and then carries it.

control Pool(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        bool same = meta.record.contributors != 0 && meta.record.owner == meta.fragment;
        // Sequence numbers count round; half of them are ahead of any other.
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
