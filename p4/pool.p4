// A contribution to a slot of a pool: what it is, and what becomes of the slot's record. Common
// to the styles whose hosts may overwrite a slot, because by then nobody needs what it held.

enum bit<2> Verdict {
    REFUSED   = 0,              // no slot of this job, or older than what the slot holds
    HELD      = 1,              // taken; others are missing
    COMPLETED = 2,              // taken, and the last one: the packet now carries the sum
    REPEATED  = 3               // in the slot already
}

control Pool(inout headers_t hdr, inout metadata_t meta, inout record_t record,
             out Verdict verdict, out LaneOperation operation) {
    apply {
        operation = LaneOperation.NONE;
        verdict = Verdict.HELD;
        // Sequence numbers count round; half of them are ahead of any other.
        bool older = record.contributors != 0
                     && hdr.ina.sequence - record.owner[31:0] > 0x7fffffff;

        if (!record.there || older) {
            verdict = Verdict.REFUSED;
            meta.event = Event.REFUSED;
        } else if (!record.same) {
            record.owner = meta.fragment;
            record.contributors = hdr.ina.bitmap;
            record.marks = 0;
            record.claimed = true;
            operation = LaneOperation.STORE;
            meta.event = Event.STORED;
        } else if (record.contributors & hdr.ina.bitmap == 0) {
            record.contributors = record.contributors | hdr.ina.bitmap;
            record.changed = true;
            operation = LaneOperation.ADD;
            meta.event = Event.ADDED;
        } else {
            verdict = Verdict.REPEATED;
            meta.event = Event.DUPLICATE;
        }

        if (verdict == Verdict.HELD && record.contributors == meta.members) {
            verdict = Verdict.COMPLETED;
            meta.event = Event.COMPLETED;
            hdr.ina.bitmap = meta.members;
        }
    }
}
