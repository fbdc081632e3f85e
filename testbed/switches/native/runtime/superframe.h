// Superframes: several packets of one flow that their sender's kernel carries through a link as
// one, for the network card to segment and checksum (segmentation offload). Here the switch acts as
// that card: the packets that it cuts are, byte for byte, those that the kernel would have sent. It
// supports UDP (Linux 6.2 passes it on) and TCP over IPv4.
//
// Packets that leave the switch are joined again where that loses nothing: UDP packets without a
// checksum, because segmentation will add one.
#ifndef SUPERFRAME_H
#define SUPERFRAME_H

#include "hash.h"

#include <linux/if_ether.h>
#include <linux/virtio_net.h>
#include <netinet/in.h>
#include <string.h>

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

struct superframe {
    const uint8_t *bytes;
    size_t length, headers, piece; // each packet has the headers, and a piece of the rest
    size_t transport;              // where UDP's or TCP's header starts
    unsigned protocol, count;
};

// Completes a checksum that was left to hardware. Its field already has the pseudo header's sum.
static void complete_checksum(uint8_t *packet, size_t length, const struct virtio_net_hdr *offload) {
    const size_t start = offload->csum_start, at = start + offload->csum_offset;
    if (start > length || at + 2 > length)
        return;
    uint16_t sum = fold(sum_words(packet + start, length - start));
    sum = sum ? sum : 0xffff;
    memcpy(packet + at, &sum, sizeof sum);
}

// Reads a superframe's headers. False if this kind cannot be cut.
static bool superframe_open(struct superframe *f, const uint8_t *bytes, size_t length,
                            const struct virtio_net_hdr *offload) {
    const unsigned kind = offload->gso_type & ~VIRTIO_NET_HDR_GSO_ECN;
    const bool tcp = kind == VIRTIO_NET_HDR_GSO_TCPV4;
    if ((!tcp && kind != VIRTIO_NET_HDR_GSO_UDP_L4) || offload->gso_size == 0 ||
        length < ETH_HLEN + 20 || load_bytes(bytes + 12, 2) != ETH_P_IP)
        return false;
    *f = (struct superframe){.bytes = bytes, .length = length, .piece = offload->gso_size};
    f->protocol = tcp ? IPPROTO_TCP : IPPROTO_UDP;
    f->transport = ETH_HLEN + 4 * (bytes[ETH_HLEN] & 15u);
    if (f->transport < ETH_HLEN + 20 || bytes[ETH_HLEN + 9] != f->protocol ||
        f->transport + (tcp ? 20 : 8) > length)
        return false;
    f->headers = f->transport + (tcp ? 4 * (bytes[f->transport + 12] >> 4) : 8u);
    if (f->headers < f->transport + (tcp ? 20 : 8) || f->headers >= length)
        return false;
    f->count = (unsigned)((length - f->headers + f->piece - 1) / f->piece);
    return true;
}

// The length in bytes of a superframe's n-th packet.
INLINE size_t superframe_length(const struct superframe *f, unsigned n) {
    const size_t rest = f->length - f->headers - n * f->piece;
    return f->headers + (rest < f->piece ? rest : f->piece);
}

// Writes a superframe's n-th packet to `to`.
static void superframe_cut(const struct superframe *f, unsigned n, uint8_t *to) {
    const size_t length = superframe_length(f, n);
    memcpy(to, f->bytes, f->headers);
    memcpy(to + f->headers, f->bytes + f->headers + n * f->piece, length - f->headers);

    uint8_t *const ip = to + ETH_HLEN, *const header = to + f->transport;
    const size_t carried = length - f->transport;
    store_bytes(ip + 2, 2, length - ETH_HLEN);
    store_bytes(ip + 4, 2, (load_bytes(ip + 4, 2) + n) & 0xffff);
    store_bytes(ip + 10, 2, 0);
    const uint16_t ip_sum = fold(sum_words(ip, f->transport - ETH_HLEN));
    memcpy(ip + 10, &ip_sum, sizeof ip_sum);

    uint8_t *checksum = header + 6;
    if (f->protocol == IPPROTO_TCP) {
        checksum = header + 16;
        store_bytes(header + 4, 4, (load_bytes(header + 4, 4) + n * f->piece) & 0xffffffff);
        if (n + 1 < f->count)
            header[13] &= (uint8_t)~0x09; // FIN and PSH are the last one's
        if (n > 0)
            header[13] &= (uint8_t)~0x80; // CWR is the first one's
    } else {
        store_bytes(header + 4, 2, carried);
    }
    store_bytes(checksum, 2, 0);
    const uint64_t pseudo = sum_words(ip + 12, 8) + WIRE16(f->protocol) + WIRE16(carried);
    uint16_t sum = fold(pseudo + sum_words(header, carried));
    sum = sum ? sum : 0xffff;
    memcpy(checksum, &sum, sizeof sum);
}

#define JOINT (ETH_HLEN + 20 + 8) // bytes of headers of packets that can be joined

// Whether a packet may be part of a superframe.
static bool can_join(const uint8_t *h, size_t length) {
    return length > JOINT && load_bytes(h + 12, 2) == ETH_P_IP && h[ETH_HLEN] == 0x45 &&
           h[ETH_HLEN + 9] == IPPROTO_UDP && load_bytes(h + ETH_HLEN + 2, 2) == length - ETH_HLEN &&
           (load_bytes(h + ETH_HLEN + 6, 2) & 0x3fff) == 0 && // no fragment
           fold(sum_words(h + ETH_HLEN, 20)) == 0 &&
           load_bytes(h + JOINT - 4, 2) == length - ETH_HLEN - 20 && load_bytes(h + JOINT - 2, 2) == 0;
}

// Whether a packet of the same length could be the n-th after the first of a superframe: everything
// is the same but IPv4's identification and checksum.
static bool follows(const uint8_t *first, unsigned n, const uint8_t *h) {
    const uint64_t id = (load_bytes(first + ETH_HLEN + 4, 2) + n) & 0xffff;
    return memcmp(first, h, ETH_HLEN + 4) == 0 && load_bytes(h + ETH_HLEN + 4, 2) == id &&
           memcmp(first + ETH_HLEN + 6, h + ETH_HLEN + 6, 4) == 0 &&
           memcmp(first + ETH_HLEN + 12, h + ETH_HLEN + 12, JOINT - ETH_HLEN - 12) == 0;
}

// Changes the first packet's headers into those of `count` packets with `piece` bytes each.
static struct virtio_net_hdr join_headers(uint8_t *h, unsigned count, size_t piece) {
    uint8_t *const ip = h + ETH_HLEN;
    const size_t carried = 8 + count * piece;
    store_bytes(ip + 2, 2, 20 + carried);
    store_bytes(ip + 10, 2, 0);
    const uint16_t ip_sum = fold(sum_words(ip, 20));
    memcpy(ip + 10, &ip_sum, sizeof ip_sum);
    store_bytes(ip + 24, 2, carried);
    const uint16_t pseudo =
        (uint16_t)~fold(sum_words(ip + 12, 8) + WIRE16(IPPROTO_UDP) + WIRE16(carried));
    memcpy(ip + 26, &pseudo, sizeof pseudo);
    return (struct virtio_net_hdr){.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
                                   .gso_type = VIRTIO_NET_HDR_GSO_UDP_L4,
                                   .hdr_len = JOINT,
                                   .gso_size = (uint16_t)piece,
                                   .csum_start = ETH_HLEN + 20,
                                   .csum_offset = 6};
}

#endif
