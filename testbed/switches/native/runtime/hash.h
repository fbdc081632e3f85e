// The hashes that v1model names, as BMv2 computes them.
#ifndef HASH_H
#define HASH_H

#include "bits.h"

#include <stddef.h>
#include <string.h>

static uint16_t crc16_table[256];
static uint32_t crc32_table[256];

static void hash_setup(void) {
    for (unsigned i = 0; i < 256; i++) {
        uint16_t narrow = (uint16_t)i;
        uint32_t wide = i;
        for (unsigned bit = 0; bit < 8; bit++) {
            narrow = (uint16_t)(narrow >> 1 ^ (narrow & 1 ? 0xa001 : 0));
            wide = wide >> 1 ^ (wide & 1 ? 0xedb88320u : 0);
        }
        crc16_table[i] = narrow;
        crc32_table[i] = wide;
    }
}

// CRC-16/ARC
INLINE uint64_t hash_crc16(const uint8_t *p, size_t n) {
    uint16_t crc = 0;
    while (n-- > 0)
        crc = (uint16_t)(crc >> 8 ^ crc16_table[(crc ^ *p++) & 0xff]);
    return crc;
}

// CRC-32 of Ethernet
INLINE uint64_t hash_crc32(const uint8_t *p, size_t n) {
    uint32_t crc = 0xffffffffu;
    while (n-- > 0)
        crc = crc >> 8 ^ crc32_table[(crc ^ *p++) & 0xff];
    return crc ^ 0xffffffffu;
}

// With BMv2's initial parameters
#define hash_crc16_custom hash_crc16
#define hash_crc32_custom hash_crc32

INLINE uint64_t hash_crcCCITT(const uint8_t *p, size_t n) {
    uint16_t crc = 0xffff;
    while (n-- > 0) {
        crc ^= (uint16_t)(*p++ << 8);
        for (unsigned bit = 0; bit < 8; bit++)
            crc = (uint16_t)(crc << 1 ^ (crc & 0x8000 ? 0x1021 : 0));
    }
    return crc;
}

// The one's complement sum of RFC 1071, in the byte order of the machine.
INLINE uint64_t sum_words(const uint8_t *p, size_t n) {
    uint64_t sum = 0;
    uint32_t word;
    for (; n >= sizeof word; n -= sizeof word, p += sizeof word) {
        memcpy(&word, p, sizeof word);
        sum += word;
    }
    word = 0;
    memcpy(&word, p, n);
    return sum + word;
}

INLINE uint16_t fold(uint64_t sum) {
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~sum;
}

INLINE uint64_t hash_csum16(const uint8_t *p, size_t n) {
    return WIRE16(fold(sum_words(p, n)));
}

INLINE uint64_t hash_xor16(const uint8_t *p, size_t n) {
    uint64_t x = 0;
    for (; n >= 2; n -= 2, p += 2)
        x ^= load_bytes(p, 2);
    return n ? x ^ (uint64_t)*p << 8 : x;
}

INLINE uint64_t hash_xor32(const uint8_t *p, size_t n) {
    uint64_t x = 0;
    for (; n >= 4; n -= 4, p += 4)
        x ^= load_bytes(p, 4);
    for (unsigned shift = 24; n > 0; n--, shift -= 8)
        x ^= (uint64_t)*p++ << shift;
    return x;
}

// The first eight bytes
INLINE uint64_t hash_identity(const uint8_t *p, size_t n) {
    uint64_t x = 0;
    for (size_t i = 0; i < n && i < 8; i++)
        x = x << 8 | p[i];
    return x;
}

// Appends bits to a buffer whose bits from *position on are zero.
INLINE void append_bits(uint8_t *buffer, unsigned *position, unsigned width, uint64_t x) {
    for (unsigned done = 0; done < width;) {
        const unsigned room = 8 - *position % 8;
        const unsigned part = width - done < room ? width - done : room;
        const uint64_t piece = x >> (width - done - part) & ones(part);
        buffer[*position / 8] |= (uint8_t)(piece << (room - part));
        *position += part;
        done += part;
    }
}

#endif
