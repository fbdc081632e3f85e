// One packet of a job and the slot that it names: the style decides by the slot's record, the
// lanes do as it says. A record is read once and written once a packet, as hardware would have it.

control Aggregation(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<fragment_t>(SLOTS) owners;         // the fragment that a slot holds
    register<bitmap_t>(SLOTS)   contributors;
    register<bit<8>>(SLOTS)     marks;
    Atp() atp;
    SwitchMl() switchml;
    Rack() rack;
    NetReduce() netreduce;
    Lanes() lanes;

    record_t record;
    LaneOperation operation;
    bool overflow;

    action refuse() {
        meta.event = Event.REFUSED;
        mark_to_drop(std);
    }

    action read_record() {
        owners.read(record.owner, record.slot);
        contributors.read(record.contributors, record.slot);
        marks.read(record.marks, record.slot);
    }

    action write_owner() {
        owners.write(record.slot, record.owner);
    }

    action write_rest() {
        contributors.write(record.slot, record.contributors);
        marks.write(record.slot, record.marks);
    }

    apply {
        meta.fragment = hdr.ina.tree ++ hdr.ina.sequence;
        record.there = hdr.ina.slot < meta.slots;
        record.slot = meta.first + hdr.ina.slot;
        record.owner = 0;
        record.contributors = 0;
        record.marks = 0;
        record.claimed = false;
        record.changed = false;
        operation = LaneOperation.NONE;
        if (record.there) {
            read_record();
        }
        record.same = record.contributors != 0 && record.owner == meta.fragment;

        // A packet cut short, one of a kind that the style does not have, or a contribution that
        // is nobody's or comes from elsewhere: none may touch a sum.
        bool carries = hdr.values.isValid()
                       || hdr.ina.kind == KIND_ACK && meta.style == Style.ATP
                       || hdr.ina.kind == KIND_ACK && meta.style == Style.RACK
                       || hdr.ina.kind == KIND_RECEIPT && meta.style == Style.RACK;
        bool upwards = hdr.ina.kind == KIND_DATA || hdr.ina.kind == KIND_RECEIPT;
        bool foreign = hdr.ina.bitmap == 0 || hdr.ina.bitmap & ~meta.members != 0;
        if (!carries || upwards && foreign) {
            refuse();
        } else if (meta.style == Style.ATP) {
            atp.apply(hdr, meta, record, std, operation);
        } else if (meta.style == Style.SWITCHML) {
            switchml.apply(hdr, meta, record, std, operation);
        } else if (meta.style == Style.RACK) {
            rack.apply(hdr, meta, record, std, operation);
        } else {
            netreduce.apply(hdr, meta, record, std, operation);
        }

        if (hdr.values.isValid()) {
            lanes.apply(operation, record.slot, meta.watch, overflow, hdr.values);
            bit<8> noted = hdr.ina.flags & (FLAG_OVERFLOW | FLAG_ECN);
            if (overflow) {
                noted = noted | FLAG_OVERFLOW;
            }
            // What befell one contribution befell the sum.
            if (operation == LaneOperation.STORE || operation == LaneOperation.ADD) {
                record.marks = record.marks | noted;
            }
            if (operation != LaneOperation.NONE) {
                hdr.ina.flags = hdr.ina.flags | record.marks & (FLAG_OVERFLOW | FLAG_ECN);
            }
        }

        if (record.claimed) {
            write_owner();
        }
        if (record.claimed || record.changed) {
            write_rest();
        }
    }
}
