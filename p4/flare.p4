// Sparse Flare (De Sensi et al., SC 2021), in SwitchML's pool. A packet holds pairs of an index and a
// value, 64 bits each, and so does a slot: a hash table with an entry for each pair of the packet.
// Hosts put an index into the same entry everywhere, and a packet's entries hold their sender's
// least indices. Of two pairs in an entry the one with the lesser index stays; the values of equal
// indices are added. The host whose pair did not stay sees another index in the sum, and sends
// its pair again. Flare's processors would keep both, in a loop; here all entries are merged at once.
//
// An index has 31 bits. The bit above it is free for the comparison: the difference of two indices
// with it set before has it still if the first is not the lesser one.

#if VALUES == 8
const lanes_t TOP_OF_PAIR = 256w0x8000000000000000800000000000000080000000000000008000000000000000;
#elif VALUES == 32
const lanes_t TOP_OF_PAIR = 1024w0x8000000000000000800000000000000080000000000000008000000000000000800000000000000080000000000000008000000000000000800000000000000080000000000000008000000000000000800000000000000080000000000000008000000000000000800000000000000080000000000000008000000000000000;
#else
const lanes_t TOP_OF_PAIR = 2048w0x80000000000000008000000000000000800000000000000080000000000000008000000000000000800000000000000080000000000000008000000000000000800000000000000080000000000000008000000000000000800000000000000080000000000000008000000000000000800000000000000080000000000000008000000000000000800000000000000080000000000000008000000000000000800000000000000080000000000000008000000000000000800000000000000080000000000000008000000000000000800000000000000080000000000000008000000000000000800000000000000080000000000000008000000000000000;
#endif
const lanes_t INDEX = TOP_OF_PAIR - (TOP_OF_PAIR >> 31);
const lanes_t VALUE = (TOP_OF_PAIR >> 31) - (TOP_OF_PAIR >> 63);

// The top bit of each pair of x whose index is at most that of y.
#define NOT_BEYOND(x, y) ((((y) & INDEX | TOP_OF_PAIR) - ((x) & INDEX)) & TOP_OF_PAIR)
#define WHOLE_PAIRS(tops) ((tops) | ((tops) - ((tops) >> 63)))

// The pairs of x that stay beside those of y; and the pairs of both, once each has been thinned out.
#define PAIRS_KEPT(x, y) ((x) & WHOLE_PAIRS(NOT_BEYOND(x, y)))
#define PAIRS_TOGETHER(x, y) (((x) | (y)) & INDEX | ((((x) & VALUE) + ((y) & VALUE)) & VALUE))

control Flare(inout metadata_t meta) {
    apply {
        if (meta.operation == LaneOperation.ADD) {
            meta.operation = LaneOperation.MERGE;
        }
    }
}
