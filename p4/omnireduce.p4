// OmniReduce's look-ahead (Fei et al., SIGCOMM 2021), added to SwitchML's pool: each contribution
// names its sender's next block that is not zero, in next_slot. The slot keeps the least of these;
// the sum carries it, and all workers go on there. It is one read-modify-write of one register.

control OmniReduce(inout headers_t hdr, inout metadata_t meta) {
    register<bit<32>>(SLOTS) nexts;

    apply {
        bit<32> next = hdr.ina.next_slot;
        bit<32> held = next;
        if (meta.operation == LaneOperation.ADD || meta.operation == LaneOperation.LOAD) {
            nexts.read(held, meta.record.slot);
        }
        // A packet that repeats a complete sum, or its sender's contribution, has no say any more.
        // Sequence numbers wrap around; half of them are ahead of any given one.
        if (meta.operation == LaneOperation.LOAD || held - next > 0x7fffffff) {
            next = held;
        }
        if (meta.operation == LaneOperation.ADD || meta.operation == LaneOperation.STORE) {
            nexts.write(meta.record.slot, next);
        }
        hdr.ina.next_slot = next;
    }
}
