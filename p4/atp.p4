// ATP's best-effort aggregation (Lao et al., NSDI 2021): the host names the slot, the first
// fragment to come claims it, the root's result frees it.
//
// On return, std.egress_spec is the drop port if the packet ends here; otherwise hdr.ipv4.dst
// says where it goes, or std.mcast_grp to whom.

control Atp(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<fragment_t>(SLOTS) owners;         // the fragment that holds a slot
    register<bitmap_t>(SLOTS)   contributors;   // whose gradients are in it; 0: the slot is free
    Lanes() lanes;

    fragment_t fragment;
    fragment_t owner;
    bitmap_t   summed;
    LaneOperation operation;

    action claim() {
        owners.write(hdr.ina.slot, fragment);
    }

    action free() {
        contributors.write(hdr.ina.slot, 0);
    }

    action forward_to_parent() {
        hdr.ipv4.dst = meta.parent;
    }

    apply {
        fragment = hdr.ina.job ++ hdr.ina.sequence;
        owners.read(owner, hdr.ina.slot);
        contributors.read(summed, hdr.ina.slot);
        operation = LaneOperation.NONE;
        bool in_memory = hdr.ina.slot < SLOTS;
        bool ours = in_memory && summed != 0 && owner == fragment;
        bool new = summed & hdr.ina.bitmap == 0;

        if (hdr.ina.kind == KIND_RESULT) {
            if (ours) {
                free();
            }
            std.mcast_grp = meta.group;
        } else if (hdr.ina.flags & FLAG_RESEND != 0) {
            // Somebody waited in vain: what there is goes to the root, and is not summed again.
            if (ours) {
                operation = new ? LaneOperation.ADD : LaneOperation.LOAD;
                hdr.ina.bitmap = summed | (new ? hdr.ina.bitmap : 0);
                free();
            }
            forward_to_parent();
        } else if (in_memory && summed == 0) {
            claim();
            operation = LaneOperation.STORE;
            contributors.write(hdr.ina.slot, hdr.ina.bitmap);
            if (hdr.ina.bitmap == meta.members) {
                forward_to_parent();
            } else {
                mark_to_drop(std);
            }
        } else if (ours) {
            if (new) {
                operation = LaneOperation.ADD;
                hdr.ina.bitmap = summed | hdr.ina.bitmap;
                contributors.write(hdr.ina.slot, hdr.ina.bitmap);
            } else {
                // A duplicate: of use only where the sum went missing further up.
                operation = LaneOperation.LOAD;
                hdr.ina.bitmap = summed;
            }
            if (hdr.ina.bitmap == meta.members) {
                forward_to_parent();
            } else {
                mark_to_drop(std);
            }
        } else {
            hdr.ina.flags = hdr.ina.flags | FLAG_COLLISION;
            forward_to_parent();
        }
        lanes.apply(operation, hdr.ina.slot, hdr.values);
    }
}
