// Awkward shapes: odd widths and alignments, wide arithmetic, signed and saturating numbers, header
// stacks, lookahead, select with masks, headers that come and go.
#include <core.p4>
#include <v1model.p4>

header tag_t { bit<4> kind; bit<1> last; bit<11> value; }
header odd_t { bit<3> a; bit<130> wide; bit<70> middle; bit<64> word; bit<5> b; }
header number_t { bit<200> x; bit<200> y; bit<8> shift; bit<8> op; }
header small_t { int<16> s; int<16> t; bit<8> u; bit<8> v; }
header note_t { bit<16> text; }
struct headers_t { tag_t[4] tags; tag_t extra; odd_t odd; number_t number; small_t small; note_t note; }
struct metadata_t { bit<4> kind; bit<100> key; }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        meta.kind = packet.lookahead<bit<4>>();
        transition select(meta.kind) {
            0: accept;
            1 &&& 0xd: tags;
            4: odd;
            6: number;
            8 .. 9: small;
            12: skip;
            default: reject;
        }
    }
    state tags {
        packet.extract(hdr.tags.next);
        transition select(hdr.tags.last.last, packet.lookahead<bit<4>>()) {
            (1, _): accept;
            (0, 2 &&& 0xe): tags;
            (0, 1): tags;
            default: accept;
        }
    }
    state odd { packet.advance(8); packet.extract(hdr.odd); transition accept; }
    state number { packet.advance(8); packet.extract(hdr.number); transition accept; }
    state small { packet.advance(8); packet.extract(hdr.small); transition accept; }
    state skip { packet.advance((bit<32>)(packet.lookahead<bit<8>>() & 0xf) << 3); packet.extract(hdr.note); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<200>>(4) totals;
    action found(bit<100> replacement) { meta.key = replacement; }
    table middles {
        key = { hdr.odd.wide: exact; hdr.odd.middle[69:6]: lpm; }
        actions = { found; NoAction; }
        default_action = NoAction();
    }
    action calculate() {
        bit<200> total;
        totals.read(total, 1);
        totals.write(1, total + hdr.number.x);
    }
    apply {
        std.egress_spec = 1;
        if (hdr.tags[0].isValid()) {
            if (hdr.tags[0].kind == 3) {
                hdr.tags.push_front(1);
                hdr.tags[0].setValid();
                hdr.tags[0].value = hdr.tags[1].value + 1;
            } else if (hdr.tags[0].kind == 2) {
                hdr.tags.pop_front(1);
                hdr.extra.setValid();
                hdr.extra.value = 11w0x7ff - hdr.tags[1].value;
            } else {
                hdr.extra = hdr.tags[2];
                hdr.tags[1].setInvalid();
            }
        }
        if (hdr.odd.isValid()) {
            meta.key = hdr.odd.wide[114:15] ^ (bit<100>)hdr.odd.middle;
            middles.apply();
            hdr.odd.wide = ((bit<130>)(meta.key ++ 8w0)) | hdr.odd.wide << 3;
            hdr.odd.middle = hdr.odd.middle + 1;
            hdr.odd.word = hdr.odd.word - (bit<64>)hdr.odd.a;
            hdr.odd.a = hdr.odd.a ^ hdr.odd.b[2:0];
            if (hdr.odd.wide > (bit<130>)hdr.odd.middle << 55) { hdr.odd.b = 31; }
        }
        if (hdr.number.isValid()) {
            bit<200> x = hdr.number.x;
            bit<200> y = hdr.number.y;
            switch (hdr.number.op) {
                0: { x = x + y; }
                1: { x = x - y; }
                2: { x = x << hdr.number.shift; }
                3: { x = x >> hdr.number.shift; }
                4: { x = x * y; }
                5: { x = ~x & y | x; }
                6: { if (x == y) { x = 1; } else if (x < y) { x = 2; } else { x = 3; } }
                7: { x[150:20] = y[130:0]; }
                8: { calculate(); totals.read(x, 1); }
                9: { totals.read(x, (bit<32>)hdr.number.shift & 3); }  // cells out of range are undefined
                default: { x = (bit<200>)x[70:7]; }
            }
            hdr.number.x = x;
        }
        if (hdr.small.isValid()) {
            int<16> s = hdr.small.s;
            hdr.small.s = hdr.small.s |+| hdr.small.t;
            hdr.small.t = s >> 3;
            hdr.small.u = hdr.small.u |-| hdr.small.v;
            if (s < -5) { hdr.small.v = (bit<8>)(bit<16>)s; }
            hdr.note.setValid();
            hdr.note.text = (bit<16>)(int<16>)(int<8>)hdr.small.v;
        }
        if (std.parser_error != error.NoError) {
            hdr.note.setValid();
            hdr.note.text = 0xe000 | (bit<16>)std.packet_length;
            std.egress_spec = 2;
        }
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.note);
        packet.emit(hdr.extra);
        packet.emit(hdr.tags);
        packet.emit(hdr.odd);
        packet.emit(hdr.number);
        packet.emit(hdr.small);
    }
}
V1Switch(P(), V(), I(), E(), C(), D()) main;
