// Headers. testbed/dataplane/wire.py defines the same packet for the hosts; a test holds them equal.

#ifndef SLOTS
#define SLOTS 4096              // aggregators; entries of every register below
#endif

const bit<16> TYPE_IPV4 = 0x0800;
const bit<8>  PROTO_TCP = 6;
const bit<8>  PROTO_UDP = 17;
const bit<16> INA_PORT  = 0xBEE0;

const bit<9> DROP_PORT = 511;     // what mark_to_drop sets in BMv2

const bit<8> KIND_DATA   = 1;   // gradients on their way to the root
const bit<8> KIND_RESULT = 2;   // the sum on its way back

const bit<8> FLAG_RESEND    = 0x01;
const bit<8> FLAG_COLLISION = 0x02;

typedef bit<48> mac_t;
typedef bit<32> ip_t;
typedef bit<64> bitmap_t;       // one bit per worker of the job
typedef bit<48> fragment_t;     // job ++ sequence number
typedef bit<2048> lanes_t;      // 64 values of 32 bits

header ethernet_t {
    mac_t   dst;
    mac_t   src;
    bit<16> type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  tos;
    bit<16> length;
    bit<16> identification;
    bit<3>  flags;
    bit<13> offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    ip_t    src;
    ip_t    dst;
}

// What TCP and UDP have in common; all that ECMP needs of them.
header ports_t {
    bit<16> src;
    bit<16> dst;
}

header udp_rest_t {
    bit<16> length;
    bit<16> checksum;
}

header ina_t {
    bit<8>   kind;
    bit<8>   flags;
    bit<16>  job;
    bit<32>  sequence;
    bit<32>  slot;              // aggregator, chosen by the host
    bit<32>  next_slot;         // in a result: the slot for the fragment that follows in this one's place
    bitmap_t bitmap;            // whose gradients are in the values
}

header values_t {
    lanes_t a;
    lanes_t b;
    lanes_t c;
    lanes_t d;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    ports_t    ports;
    udp_rest_t udp;
    ina_t      ina;
    values_t   values;
}

struct metadata_t {
    bit<16>  next_hop;          // index into the next-hop table
    bitmap_t members;           // workers whose sum leaves this switch upwards
    ip_t     parent;            // next aggregating node towards the root
    bit<16>  group;             // multicast group of the children
}
