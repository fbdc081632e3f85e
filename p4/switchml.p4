// SwitchML's pool (Sapio et al., NSDI 2021, algorithm 2). Each slot has two versions, so
// that one can still answer a worker that missed the result while the other is filled. The
// hosts name slot and version. The paper clears a worker's bit in the other version; here, a slot
// keeps the number of its fragment instead, so that a very late packet cannot do harm.
//
// With several tiers, a sum is sent up, and the result that comes down is kept here, too.

control SwitchMl(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Pool() pool;

    action answer_all() {
        hdr.ina.kind = KIND_RESULT;
        std.mcast_grp = meta.group;
    }

    action answer_sender() {
        hdr.ina.kind = KIND_RESULT;
        hdr.ipv4.dst = hdr.ipv4.src;
    }

    apply {
        if (hdr.ina.kind == KIND_RESULT) {
            bool same = meta.record.contributors != 0 && meta.record.owner == meta.fragment;
            meta.event = Event.RETURNED;
            if (same && meta.record.marks & ANSWERED == 0) {
                meta.operation = LaneOperation.STORE;
                meta.record.contributors = meta.members;
                meta.record.marks = meta.record.marks | ANSWERED;
            }
            std.mcast_grp = meta.group;
        } else {
            pool.apply(hdr, meta, std);
            if (std.egress_spec != DROP_PORT) {
                if (meta.record.marks & ANSWERED != 0) {
                    answer_sender();
                } else if (meta.parent == 0) {
                    meta.record.marks = meta.record.marks | ANSWERED;
                    answer_all();
                } else {
                    // Sent also if the sum or its result was lost above.
                    hdr.ipv4.dst = meta.parent;
                }
            }
        }
    }
}
