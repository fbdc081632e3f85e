// NetReduce (Liu et al., ASPLOS 2023). The hosts keep their reliable connections (RoCEv2), each
// to the next host on a ring. Only a message's first packet carries the INA header; the others
// are recognised by connection and sequence number. The switch sums the packets of a fragment
// and forwards each to its original destination, with the sum in place of its values.

// The connection lookup table. It makes every packet of a message an INA packet, and keeps the last
// four messages of a connection by number, which a message's first packet has in next_slot.
control Messages(inout headers_t hdr, inout metadata_t meta, in bit<16> connection) {
    // First PSN, first fragment, first slot, number of packets.
    register<bit<112>>(CONNECTIONS * 4) messages;
    bit<112> message;
    bit<24>  offset;
    bit<32>  index;

    action look() {
        messages.read(message, index);
        offset = hdr.bth.sequence - message[111:88];
    }

    action keep() {
        messages.write(index, message);
    }

    apply {
        if (hdr.bth.opcode == SEND_FIRST || hdr.bth.opcode == SEND_ONLY) {
            index = (bit<32>) (connection ++ hdr.ina.next_slot[25:24]);
            look();
            bool older = message[23:0] != 0 && hdr.ina.sequence - message[87:56] > 0x7fffffff;
            message = hdr.bth.sequence ++ hdr.ina.sequence ++ hdr.ina.slot
                      ++ hdr.ina.next_slot[23:0];
            offset = 0;
            if (!older) {
                keep();
            }
        } else {
            index = (bit<32>) (connection ++ 2w0);
            look();
            if (offset >= message[23:0]) {
                index = index + 1;
                look();
            }
            if (offset >= message[23:0]) {
                index = index + 1;
                look();
            }
            if (offset >= message[23:0]) {
                index = index + 1;
                look();
            }
            hdr.ina.next_slot = 0;
        }
        hdr.ina.sequence = message[87:56] + (bit<32>) offset;
        hdr.ina.slot = message[55:24] + (bit<32>) offset;
        meta.fragment = hdr.ina.tree ++ hdr.ina.sequence;
        meta.record.slot = meta.record.slot + hdr.ina.slot;
        if (offset >= message[23:0]) {
            // Its message's first packet was lost and will be retransmitted: no slot until then.
            meta.slots = 0;
        }
    }
}

// A packet's format when it leaves: on a connection, or between switches like any INA packet.
control Format(inout headers_t hdr) {
    const bit<16> IP = 20;
    const bit<16> UDP = 8;
    const bit<16> BTH = 12;
    const bit<16> INA = 24;
    const bit<16> ALL_VALUES = VALUES * 4;

    action length(bit<16> payload) {
        hdr.udp.length = UDP + payload;
        hdr.ipv4.length = IP + UDP + payload;
    }

    apply {
        if (!hdr.bth.isValid()) {
            hdr.ports.dst = INA_PORT;
            length(INA + ALL_VALUES);
        } else {
            hdr.ports.dst = ROCE_PORT;
            if (hdr.bth.opcode == SEND_FIRST || hdr.bth.opcode == SEND_ONLY) {
                length(BTH + INA + ALL_VALUES);
            } else {
                hdr.ina.setInvalid();
                length(BTH + ALL_VALUES);
            }
        }
    }
}

control NetReduce(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    // The header buffer. All connections of a job number their packets alike, so one
    // header serves the copies for all members.
    register<bit<56>>(SLOTS) headers;
    Pool() pool;
    bit<56> held;

    action hold_header() {
        headers.write(meta.record.slot, held);
    }

    action answer_all() {
        headers.read(held, meta.record.slot);
        hdr.bth.setValid();
        hdr.bth.opcode = held[55:48];
        hdr.bth.flags = held[47:40];
        hdr.bth.partition = held[39:24];
        hdr.bth.reserved = BTH_SUM;
        hdr.bth.acknowledge = 0;
        hdr.bth.sequence = held[23:0];
        hdr.ina.kind = KIND_RESULT;
        hdr.ina.bitmap = meta.members;
        std.mcast_grp = meta.group;
    }

    action to_parent() {
        hdr.ipv4.dst = meta.parent;
        hdr.bth.setInvalid();
    }

    apply {
        if (hdr.ina.kind == KIND_RESULT) {
            bool same = meta.record.contributors != 0 && meta.record.owner == meta.fragment;
            meta.event = Event.RETURNED;
            if (same) {
                meta.operation = LaneOperation.STORE;
                meta.record.contributors = meta.members;
                meta.record.marks = meta.record.marks | ANSWERED;
                answer_all();
            } else {
                meta.event = Event.REFUSED;
                mark_to_drop(std);
            }
        } else {
            pool.apply(hdr, meta, std);
            if (hdr.bth.isValid() && meta.event != Event.REFUSED) {
                held = hdr.bth.opcode ++ hdr.bth.flags ++ hdr.bth.partition ++ hdr.bth.sequence;
                hold_header();
            }
            if (std.egress_spec != DROP_PORT) {
                if (meta.record.marks & ANSWERED != 0) {
                    hdr.ina.kind = KIND_RESULT;
                    if (!hdr.bth.isValid()) {
                        hdr.ipv4.dst = hdr.ipv4.src;
                    } else if (hdr.ipv4.dst == meta.self) {
                        // Addressed to this switch: for one receiver, the connection's.
                        answer_all();
                    } else {
                        // Retransmitted because its receiver missed the sum: forwarded to it.
                        meta.self = hdr.ipv4.src;
                        hdr.bth.reserved = BTH_SUM;
                    }
                } else if (meta.parent == 0) {
                    meta.record.marks = meta.record.marks | ANSWERED;
                    answer_all();
                } else {
                    to_parent();
                }
            }
        }
    }
}
