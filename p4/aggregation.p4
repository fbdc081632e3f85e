// One packet of a job, and the slot that it names. The protocol decides by the slot's record, and
// the lanes follow. A packet reads and writes the record once, as hardware requires.

#ifdef OWN_PROTOCOL
#include OWN_PROTOCOL
#endif

control Aggregation(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<fragment_t>(SLOTS) owners;         // the fragment that a slot holds
    register<bitmap_t>(SLOTS)   contributors;
    register<bit<8>>(SLOTS)     marks;
    Atp() atp;
    A2tp() a2tp;
    Esa() esa;
    SwitchMl() switchml;
    Rack() rack;
    NetReduce() netreduce;
    OmniReduce() omnireduce;
    Flare() flare;
#ifdef OWN_PROTOCOL
    Own() own;
#endif
    Lanes() lanes;

    action refuse() {
        meta.event = Event.REFUSED;
        mark_to_drop(std);
    }

    action read_record() {
        owners.read(meta.record.owner, meta.record.slot);
        contributors.read(meta.record.contributors, meta.record.slot);
        marks.read(meta.record.marks, meta.record.slot);
    }

    // A mark on one contribution is a mark on the sum.
    action share_marks() {
        hdr.ina.flags = hdr.ina.flags | meta.record.marks & (FLAG_OVERFLOW | FLAG_ECN);
        meta.record.marks = meta.record.marks | hdr.ina.flags & (FLAG_OVERFLOW | FLAG_ECN);
    }

    action write_rest() {
        contributors.write(meta.record.slot, meta.record.contributors);
        marks.write(meta.record.slot, meta.record.marks);
    }

    action write_record() {
        owners.write(meta.record.slot, meta.fragment);
        write_rest();
    }

    // On a tree of more than 64 workers, a sum is one contribution (one bit) at the parent.
    action name_sum() {
        hdr.ina.bitmap = meta.sum;
    }

    apply {
        if (hdr.ina.slot < meta.slots) {
            read_record();
        }

        // Truncated packets, kinds that the protocol does not have, and contributions that are
        // nobody's or not of this switch's children must not change a sum.
        bool shares = meta.style == Style.ATP || meta.style == Style.A2TP
                      || meta.style == Style.ESA;
        bool carries = hdr.values.isValid()
                       || hdr.ina.kind == KIND_ACK && shares
                       || hdr.ina.kind == KIND_ACK && meta.style == Style.RACK
                       || hdr.ina.kind == KIND_RECEIPT && meta.style == Style.RACK;
        bool upwards = hdr.ina.kind == KIND_DATA || hdr.ina.kind == KIND_RECEIPT;
        bool foreign = hdr.ina.bitmap == 0 || hdr.ina.bitmap | meta.members != meta.members;
        bool passes = meta.node != 0 && hdr.ina.next_slot != meta.node;
        if (!carries || upwards && foreign && !passes) {
            refuse();
        } else if (shares) {
            atp.apply(hdr, meta, std);
            if (meta.style == Style.A2TP) {
                a2tp.apply(hdr, meta);
            } else if (meta.style == Style.ESA) {
                esa.apply(hdr, meta);
            }
        } else if (meta.style == Style.SWITCHML || meta.style == Style.PANAMA) {
            switchml.apply(hdr, meta, std);
        } else if (meta.style == Style.OMNIREDUCE) {
            switchml.apply(hdr, meta, std);
            omnireduce.apply(hdr, meta);
        } else if (meta.style == Style.FLARE) {
            switchml.apply(hdr, meta, std);
            flare.apply(meta);
        } else if (meta.style == Style.RACK) {
            rack.apply(hdr, meta, std);
#ifdef OWN_PROTOCOL
        } else if (meta.style == Style.OWN) {
            own.apply(hdr, meta, std);
#endif
        } else {
            netreduce.apply(hdr, meta, std);
        }

        if (meta.above != 0 && !passes && meta.event != Event.EVICTED
            && hdr.ina.bitmap == meta.members
            && (hdr.ina.kind == KIND_DATA || hdr.ina.kind == KIND_RECEIPT)) {
            name_sum();
            if (meta.style != Style.OMNIREDUCE) {
                hdr.ina.next_slot = meta.above;
            }
        }

        if (hdr.values.isValid()) {
            lanes.apply(meta.operation, meta.record.slot, meta.watch, hdr.ina.flags, hdr.values);
            if (meta.operation != LaneOperation.NONE && meta.operation != LaneOperation.SWAP
                && (hdr.ina.flags | meta.record.marks) & (FLAG_OVERFLOW | FLAG_ECN) != 0) {
                share_marks();
            }
        }
        if (meta.operation == LaneOperation.STORE || meta.operation == LaneOperation.SWAP) {
            write_record();
        } else if (meta.operation == LaneOperation.ADD || meta.operation == LaneOperation.MERGE
                   || meta.record.changed) {
            write_rest();
        }
    }
}
