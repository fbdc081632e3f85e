// Addresses each multicast copy to the child that receives it.

control Replication(inout headers_t hdr, inout standard_metadata_t std) {
    action send(ip_t ip, mac_t source, mac_t destination) {
        hdr.ipv4.dst = ip;
        hdr.ethernet.src = source;
        hdr.ethernet.dst = destination;
    }

    action address(ip_t ip, mac_t source, mac_t destination) {
        send(ip, source, destination);
        hdr.bth.setInvalid();
    }

    // NetReduce: the copy leaves on the connection whose receiver is the child.
    action connect(ip_t ip, ip_t peer, bit<24> connection, mac_t source, mac_t destination) {
        send(ip, source, destination);
        hdr.ipv4.src = peer;
        hdr.bth.connection = connection;
    }

    table replicas {
        key = { std.egress_rid: exact; }
        actions = { address; connect; NoAction; }
        default_action = NoAction();
        size = COPIES;
    }

    apply {
        replicas.apply();
    }
}
