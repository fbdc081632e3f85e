// Bits and wide numbers in wire order.
//
// A wide number is a big-endian array of n 64-bit limbs; limb 0 is the first in memory, and the
// most significant.
#ifndef BITS_H
#define BITS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline, unused))

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WIRE16(x) __builtin_bswap16(x)
#define WIRE32(x) __builtin_bswap32(x)
#define WIRE64(x) __builtin_bswap64(x)
#else
#define WIRE16(x) (x)
#define WIRE32(x) (x)
#define WIRE64(x) (x)
#endif

INLINE uint64_t load64(const uint8_t *p) {
    uint64_t x;
    memcpy(&x, p, 8);
    return WIRE64(x);
}

INLINE void store64(uint8_t *p, uint64_t x) {
    x = WIRE64(x);
    memcpy(p, &x, 8);
}

// Exactly n <= 8 bytes: nothing beyond them may be accessed.
INLINE uint64_t load_bytes(const uint8_t *p, unsigned n) {
    uint64_t x = 0;
    if (n == 8)
        return load64(p);
    if (n & 4) {
        uint32_t y;
        memcpy(&y, p, 4);
        x = WIRE32(y);
        p += 4;
    }
    if (n & 2) {
        uint16_t y;
        memcpy(&y, p, 2);
        x = x << 16 | WIRE16(y);
        p += 2;
    }
    return n & 1 ? x << 8 | *p : x;
}

INLINE void store_bytes(uint8_t *p, unsigned n, uint64_t x) {
    if (n == 8) {
        store64(p, x);
        return;
    }
    if (n & 1)
        p[n - 1] = (uint8_t)x, x >>= 8;
    if (n & 2) {
        uint16_t y = WIRE16((uint16_t)x);
        memcpy(p + (n & 4), &y, 2);
        x >>= 16;
    }
    if (n & 4) {
        uint32_t y = WIRE32((uint32_t)x);
        memcpy(p, &y, 4);
    }
}

INLINE uint64_t ones(unsigned width) {
    return width >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << width) - 1;
}

INLINE uint64_t sign_extend(uint64_t x, unsigned width) {
    return width >= 64 ? x : (uint64_t)((int64_t)(x << (64 - width)) >> (64 - width));
}

// width <= 64 bits, from the given bit on; bit 0 is the first byte's most significant.
INLINE uint64_t get_bits(const uint8_t *p, unsigned offset, unsigned width) {
    p += offset / 8;
    offset %= 8;
    const unsigned n = (offset + width + 7) / 8;
    const unsigned below = 8 * n - offset - width;
    if (n == 9)
        return (load64(p) << (8 - below) | p[8] >> below) & ones(width);
    return load_bytes(p, n) >> below & ones(width);
}

INLINE void put_bits(uint8_t *p, unsigned offset, unsigned width, uint64_t x) {
    p += offset / 8;
    offset %= 8;
    const unsigned n = (offset + width + 7) / 8;
    const unsigned below = 8 * n - offset - width;
    x &= ones(width);
    if (n == 9) {
        const uint64_t first = load64(p) & ~(ones(width) >> (8 - below));
        store64(p, first | (x >> (8 - below)));
        p[8] = (uint8_t)((p[8] & ones(below)) | x << below);
        return;
    }
    if (offset == 0 && below == 0)
        store_bytes(p, n, x);
    else
        store_bytes(p, n, (load_bytes(p, n) & ~(ones(width) << below)) | x << below);
}

INLINE uint64_t shift_left(uint64_t x, uint64_t amount) {
    return amount < 64 ? x << amount : 0;
}

INLINE uint64_t shift_right(uint64_t x, uint64_t amount) {
    return amount < 64 ? x >> amount : 0;
}

INLINE uint64_t shift_right_signed(uint64_t x, uint64_t amount) {
    return (uint64_t)((int64_t)x >> (amount < 64 ? amount : 63));
}

INLINE uint64_t add_carry(uint64_t x, uint64_t y, uint64_t *carry) {
    uint64_t sum, total;
    const bool first = __builtin_add_overflow(x, y, &sum);
    const bool second = __builtin_add_overflow(sum, *carry, &total);
    *carry = first | second;
    return total;
}

INLINE uint64_t subtract_borrow(uint64_t x, uint64_t y, uint64_t *borrow) {
    uint64_t difference, total;
    const bool first = __builtin_sub_overflow(x, y, &difference);
    const bool second = __builtin_sub_overflow(difference, *borrow, &total);
    *borrow = first | second;
    return total;
}

INLINE uint64_t limb(const uint8_t *p, unsigned i) {
    return load64(p + 8 * i);
}

INLINE void set_limb(uint8_t *p, unsigned i, uint64_t x) {
    store64(p + 8 * i, x);
}

// Inlined and unrolled, in the widest moves available: n is a constant, and a call to memcpy()
// would cost about as much as the copy.
typedef uint64_t limbs4 __attribute__((vector_size(32), aligned(1), may_alias));

INLINE void copy_limbs(uint8_t *to, const uint8_t *from, unsigned n) {
    unsigned i = 0;
    for (; i + 4 <= n; i += 4)
        *(limbs4 *)(to + 8 * i) = *(const limbs4 *)(from + 8 * i);
    memcpy(to + 8 * i, from + 8 * i, 8 * (n - i));
}

// n limbs from m limbs, truncated or extended by zeros or the sign.
INLINE void wide_resize(uint8_t *to, unsigned n, const uint8_t *from, unsigned m, bool sign) {
    if (n <= m) {
        memmove(to, from + 8 * (m - n), 8 * n);
    } else {
        memset(to, sign && from[0] & 0x80 ? 0xff : 0, 8 * (n - m));
        memmove(to + 8 * (n - m), from, 8 * m);
    }
}

INLINE void wide_set(uint8_t *to, unsigned n, uint64_t x, bool sign) {
    memset(to, sign && x >> 63 ? 0xff : 0, 8 * (n - 1));
    set_limb(to, n - 1, x);
}

// A field of any width and alignment; n limbs must hold it.
static inline __attribute__((unused)) void wide_get(uint8_t *to, unsigned n, const uint8_t *p,
                                                    unsigned offset, unsigned width, bool sign) {
    unsigned left = width;
    uint64_t x = 0;
    for (unsigned i = n; i-- > 0;) {
        const unsigned part = left < 64 ? left : 64;
        if (part > 0) {
            x = get_bits(p, offset + left - part, part);
            left -= part;
            if (sign && left == 0)
                x = sign_extend(x, part);
        } else {
            x = sign && x >> 63 ? ~(uint64_t)0 : 0;
        }
        set_limb(to, i, x);
    }
}

static inline __attribute__((unused)) void wide_put(uint8_t *p, unsigned offset, unsigned width,
                                                    const uint8_t *from, unsigned n) {
    unsigned left = width;
    for (unsigned i = n; left > 0;) {
        const unsigned part = left < 64 ? left : 64;
        left -= part;
        put_bits(p, offset + left, part, limb(from, --i));
    }
}

INLINE void wide_shift_left(uint8_t *to, const uint8_t *from, unsigned n, uint64_t amount) {
    const uint64_t limbs = amount / 64;
    const unsigned bits = amount % 64;
    for (unsigned i = 0; i < n; i++) { // reads at or after what it writes
        const uint64_t high = i + limbs < n ? limb(from, (unsigned)(i + limbs)) : 0;
        const uint64_t low = i + limbs + 1 < n ? limb(from, (unsigned)(i + limbs + 1)) : 0;
        set_limb(to, i, bits ? high << bits | low >> (64 - bits) : high);
    }
}

INLINE void wide_shift_right(uint8_t *to, const uint8_t *from, unsigned n, uint64_t amount,
                             bool sign) {
    const uint64_t limbs = amount / 64;
    const unsigned bits = amount % 64;
    const uint64_t fill = sign && from[0] & 0x80 ? ~(uint64_t)0 : 0;
    for (unsigned i = n; i-- > 0;) {
        const uint64_t low = i >= limbs ? limb(from, (unsigned)(i - limbs)) : fill;
        const uint64_t high = i >= limbs + 1 ? limb(from, (unsigned)(i - limbs - 1)) : fill;
        set_limb(to, i, bits ? low >> bits | high << (64 - bits) : low);
    }
}

// Modulo 2 to the number of bits; `to` is neither factor.
static inline __attribute__((unused)) void wide_multiply(uint8_t *to, const uint8_t *x,
                                                         const uint8_t *y, unsigned n) {
    memset(to, 0, 8 * n);
    for (unsigned i = 0; i < n; i++) {
        uint64_t carry = 0;
        for (unsigned j = 0; i + j < n; j++) {
            const unsigned k = n - 1 - i - j;
            const unsigned __int128 sum = (unsigned __int128)limb(x, n - 1 - i) * limb(y, n - 1 - j) +
                                          limb(to, k) + carry;
            set_limb(to, k, (uint64_t)sum);
            carry = (uint64_t)(sum >> 64);
        }
    }
}

// -1, 0 or 1
INLINE int wide_compare(const uint8_t *x, const uint8_t *y, unsigned n, bool sign) {
    if (sign && (x[0] ^ y[0]) & 0x80)
        return x[0] & 0x80 ? -1 : 1;
    const int order = memcmp(x, y, 8 * n);
    return (order > 0) - (order < 0);
}

#endif
