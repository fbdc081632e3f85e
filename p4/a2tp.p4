// What A2TP (Li et al., EuroSys 2023) adds to ATP, from its released code. A packet that finds its
// slot taken marks the slot, and packets of the fragment that holds it bear the mark: the owner
// learns that others wait for its slots. A slot has the mark until another fragment claims it.

control A2tp(inout headers_t hdr, inout metadata_t meta) {
    action mark_slot() {
        meta.record.marks = meta.record.marks | FLAG_COLLISION;
        meta.record.changed = true;
    }

    action tell_owner() {
        hdr.ina.flags = hdr.ina.flags | FLAG_CONTENDED;
    }

    apply {
        if (meta.event == Event.COLLISION) {
            if (hdr.ina.slot < meta.slots) {
                mark_slot();
            }
        } else if (meta.operation != LaneOperation.NONE
                   && meta.record.marks & FLAG_COLLISION != 0) {
            tell_owner();
        }
    }
}
