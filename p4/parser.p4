parser InaParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TYPE_IPV4: ipv4;
            default: accept;
        }
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        // With IP options, and in later IP fragments, the ports are not in this place.
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.offset, hdr.ipv4.protocol) {
            (4, 5, 0, PROTO_TCP): tcp;
            (4, 5, 0, PROTO_UDP): udp;
            default: accept;
        }
    }

    state tcp {
        packet.extract(hdr.ports);
        transition accept;
    }

    state udp {
        packet.extract(hdr.ports);
        transition select(hdr.ports.dst) {
            INA_PORT: ina;
            ROCE_PORT: roce;
            default: accept;
        }
    }

    state ina {
        packet.extract(hdr.udp);
        packet.extract(hdr.ina);
        transition select(hdr.ina.kind) {
            KIND_DATA: values;
            KIND_RESULT: values;
            default: accept;
        }
    }

    state roce {
        packet.extract(hdr.udp);
        packet.extract(hdr.bth);
        transition select(hdr.bth.opcode) {
            SEND_FIRST: message;
            SEND_ONLY: message;
            SEND_MIDDLE: values;
            SEND_LAST: values;
            default: accept;
        }
    }

    // Only a message's first packet has the INA header.
    state message {
        packet.extract(hdr.ina);
        transition values;
    }

    state values {
        packet.extract(hdr.values);
        transition accept;
    }
}

control InaDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}
