// A toy protocol with a control of its own: SwitchML's pool, of which the switch answers all again,
// and not only the one who missed the sum. It is a user's program as well: what it includes
// includes it in its turn, for the control.

#ifndef OWN_PROTOCOL
#define OWN_PROTOCOL "loud.p4"
#define OWN_NUMBER 200
#include "ina.p4"
#else

control Own(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    Pool() pool;

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
                if (meta.parent == 0 || meta.record.marks & ANSWERED != 0) {
                    meta.record.marks = meta.record.marks | ANSWERED;
                    hdr.ina.kind = KIND_RESULT;
                    std.mcast_grp = meta.group;
                } else {
                    hdr.ipv4.dst = meta.parent;
                }
            }
        }
    }
}

#endif
