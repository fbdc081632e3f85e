// SwitchML's pool (Sapio et al., NSDI 2021, algorithm 2): each slot exists in two versions, so
// that one still answers for the result that some worker missed while the other is filled. The
// hosts name slot and version; a slot knows which fragment it holds, in the place of the paper's
// clearing of bits in the other version, so that a packet out of the past can do no harm.
//
// Hierarchical: below the root a sum goes up, and its result comes down to be kept here as well.

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
                    // Also where the sum, or its result, went missing above.
                    hdr.ipv4.dst = meta.parent;
                }
            }
        }
    }
}
