// SwitchML's pool (Sapio et al., NSDI 2021, algorithm 2): each slot exists in two versions, so
// that one still answers for the result that some worker missed while the other is filled. The
// hosts name slot and version; a slot knows which fragment it holds, in the place of the paper's
// clearing of bits in the other version, so that a packet out of the past can do no harm.
//
// Hierarchical: below the root a sum goes up, and its result comes down to be kept here as well.

control SwitchMl(inout headers_t hdr, inout metadata_t meta, inout record_t record,
                 inout standard_metadata_t std, out LaneOperation operation) {
    Pool() pool;
    Verdict verdict;

    action answer_all() {
        hdr.ina.kind = KIND_RESULT;
        std.mcast_grp = meta.group;
    }

    action answer_sender() {
        hdr.ina.kind = KIND_RESULT;
        hdr.ina.bitmap = meta.members;
        hdr.ipv4.dst = meta.source;
    }

    action to_parent() {
        hdr.ina.bitmap = meta.members;
        hdr.ipv4.dst = meta.parent;
    }

    apply {
        bool answered = record.marks & ANSWERED != 0;
        if (hdr.ina.kind == KIND_RESULT) {
            operation = LaneOperation.NONE;
            meta.event = Event.RETURNED;
            if (record.same && !answered) {
                operation = LaneOperation.STORE;
                record.contributors = meta.members;
                record.marks = record.marks | ANSWERED;
                record.changed = true;
            }
            std.mcast_grp = meta.group;
        } else {
            pool.apply(hdr, meta, record, verdict, operation);
            if (verdict == Verdict.COMPLETED) {
                if (meta.parent == 0) {
                    record.marks = record.marks | ANSWERED;
                    answer_all();
                } else {
                    to_parent();
                }
            } else if (verdict == Verdict.REPEATED && answered) {
                operation = LaneOperation.LOAD;
                answer_sender();
            } else if (verdict == Verdict.REPEATED && record.contributors == meta.members) {
                // The sum, or its result, went missing above.
                operation = LaneOperation.LOAD;
                to_parent();
            } else {
                mark_to_drop(std);
            }
        }
    }
}
