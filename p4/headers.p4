// Headers. testbed/wire.py defines the INA packet for the hosts; a test checks that both agree.

// The switch's resources, set by p4c -DSLOTS=… -DVALUES=…; README.md gives those of real switches.
#ifndef SLOTS
#define SLOTS 4096              // aggregator slots: the entries of each register in switch memory
#endif
#ifndef VALUES
#define VALUES 256              // 32-bit values in a packet: 8, 32, 64, 256 or 1024
#endif
#define TREES 256               // most aggregation trees in a switch's table
#define JOBS 256                // jobs whose events are counted
#define CONNECTIONS 1024        // NetReduce's, in the connection lookup table
#define COPIES 16384            // of packets for all children: 64 children on each tree
#define FLOWS 16384             // with a path of their own
#define TIME_TO_LIVE 64         // of a packet that the switch sends in its own name

const bit<16> TYPE_IPV4 = 0x0800;
const bit<8>  PROTO_TCP = 6;
const bit<8>  PROTO_UDP = 17;
const bit<16> INA_PORT  = 0xBEE0;
const bit<16> ROCE_PORT = 4791;

const bit<9> DROP_PORT = 511;     // what mark_to_drop sets in BMv2

const bit<8> KIND_DATA    = 1;  // gradients on their way to the root
const bit<8> KIND_RESULT  = 2;  // the sum on its way back, or a rank's values for all
const bit<8> KIND_RECEIPT = 3;  // up, without values: a member has received a multicast
const bit<8> KIND_ACK     = 4;  // down, without values: the root has the sum, or asks for floats

const bit<8> FLAG_RESEND    = 0x01;
const bit<8> FLAG_COLLISION = 0x02;
const bit<8> FLAG_OVERFLOW  = 0x04;   // an addition left the range of int32
const bit<8> FLAG_ECN       = 0x08;   // a queue on the path was long
const bit<8> FLAG_FLOATS    = 0x10;   // the values are floats, which switches do not add
const bit<8> FLAG_CONTENDED = 0x20;   // A2TP: others wanted the slot of this fragment
const bit<8> PRIORITY       = 0xe0;   // ESA: the upper three bits are a priority, from 1 on

// RoCEv2 (InfiniBand specification, annex A17): opcodes of a reliable connection's messages.
const bit<8> SEND_FIRST  = 0x00;
const bit<8> SEND_MIDDLE = 0x01;
const bit<8> SEND_LAST   = 0x02;
const bit<8> SEND_ONLY   = 0x04;
const bit<8> BTH_SUM     = 0x01;      // in a reserved byte: the values are the sum already

typedef bit<48> mac_t;
typedef bit<32> ip_t;
typedef bit<64> bitmap_t;       // one bit per worker, or per child of a node (README.md)
typedef bit<48> fragment_t;     // tree ++ sequence number
#if VALUES == 8
typedef bit<256> lanes_t;       // 8 values of 32 bits
#elif VALUES == 32
typedef bit<1024> lanes_t;      // 32 values of 32 bits
#else
typedef bit<2048> lanes_t;      // 64 values of 32 bits
#endif

// All lanes of a packet.
#if VALUES == 1024
#define EACH(of) of(a) of(b) of(c) of(d) of(e) of(f) of(g) of(h) \
                 of(i) of(j) of(k) of(l) of(m) of(n) of(o) of(p)
#elif VALUES == 256
#define EACH(of) of(a) of(b) of(c) of(d)
#else
#define EACH(of) of(a)
#endif

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

// The fields that TCP and UDP share; ECMP needs no others.
header ports_t {
    bit<16> src;
    bit<16> dst;
}

header udp_rest_t {
    bit<16> length;
    bit<16> checksum;
}

// Base transport header of RoCEv2.
header bth_t {
    bit<8>  opcode;
    bit<8>  flags;
    bit<16> partition;
    bit<8>  reserved;
    bit<24> connection;         // destination queue pair
    bit<8>  acknowledge;
    bit<24> sequence;           // packet sequence number (PSN)
}

header ina_t {
    bit<8>   kind;
    bit<8>   flags;
    bit<16>  tree;
    bit<32>  sequence;
    bit<32>  slot;              // aggregator, chosen by the host
    bit<32>  next_slot;         // in a result: the slot for the next fragment in this one's place;
                                // upwards, with more than 64 workers: the node of these bits;
                                // in OmniReduce, the next block that is not zero
    bitmap_t bitmap;            // the workers or children whose gradients are in the values
}

header values_t {
#define FIELD(x) lanes_t x;
    EACH(FIELD)
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    ports_t    ports;
    udp_rest_t udp;
    bth_t      bth;
    ina_t      ina;
    values_t   values;
}

enum bit<8> Style {
#ifdef OWN_PROTOCOL
    OWN        = OWN_NUMBER,    // a user's own protocol
#endif
    ATP        = 1,
    SWITCHML   = 2,
    RACK       = 3,
    NETREDUCE  = 4,
    PANAMA     = 5,
    A2TP       = 6,
    ESA        = 7,
    OMNIREDUCE = 9,
    FLARE      = 10
}

// What a switch did with a packet of a job, for the job's counters.
enum bit<4> Event {
    STORED    = 0,              // first of its fragment: a slot is taken
    ADDED     = 1,
    COMPLETED = 2,              // last of its fragment: the sum leaves
    DUPLICATE = 3,
    COLLISION = 4,              // another fragment holds the slot
    FLUSHED   = 5,              // resent: takes the partial sum along, and frees the slot
    PASSED    = 6,              // goes up as it is
    FREED     = 7,              // goes down, and frees the slot
    RETURNED  = 8,              // goes down
    REFUSED   = 9,              // dropped: stale, or beyond the job's memory
    EVICTED   = 10              // takes the slot of another fragment, whose sum goes up
}

enum bit<8> LaneOperation {
    NONE  = 0,
    STORE = 1,                  // memory <- packet
    ADD   = 2,                  // memory, packet <- memory + packet
    LOAD  = 3,                  // packet <- memory
    SWAP  = 4,                  // memory <-> packet
    MERGE = 5                   // memory, packet <- pairs of both: flare.p4
}

// A slot's record in switch memory, as read and as written back. The owner changes only with
// LaneOperation.STORE and SWAP.
struct record_t {
    bit<32>    slot;
    fragment_t owner;
    bitmap_t   contributors;    // whose gradients are in the slot; 0: it is free
    bit<8>     marks;           // FLAG_OVERFLOW and FLAG_ECN of the contributions; ANSWERED;
                                // A2TP: FLAG_COLLISION; ESA: the priority
    bool       changed;         // although the values do not
}

const bit<8> ANSWERED = 0x80;   // the slot holds the final result

// Per-packet metadata, initially 0 (v1model). It is kept small because BMv2 pays for each field
// of each packet, and for each assignment.
struct metadata_t {
    bit<16>       next_hop;     // index into the next-hop table

    // Set by the control plane's entry for the packet's tree, if this switch has one.
    Style         style;
    bit<12>       job;          // the job whose events are counted
    bitmap_t      members;      // the bits that a complete sum has here
    bitmap_t      sum;          // the bits of that sum at the parent
    bit<32>       above;        // that parent's number, with more than 64 workers; else 0
    bit<32>       node;         // this switch's own number, likewise
    ip_t          parent;       // next aggregating node towards the root; 0: this is the root
    ip_t          self;
    bit<16>       group;        // multicast group of the children
    bit<32>       slots;        // number of slots that the job has
    bit<1>        watch;        // whether to check for overflow

    fragment_t    fragment;
    record_t      record;
    LaneOperation operation;
    Event         event;
}
