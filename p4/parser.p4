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
        // Options and later fragments carry no ports where we look for them.
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
            default: accept;
        }
    }

    state ina {
        packet.extract(hdr.udp);
        packet.extract(hdr.ina);
        packet.extract(hdr.values);
        transition accept;
    }
}

control InaDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}
