// The buffer for the switch's reply to the control plane.
#ifndef REPLY_H
#define REPLY_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static uint8_t *reply;
static size_t reply_used, reply_size;

static void reply_bytes(const void *p, size_t n) {
    if (reply_used + n > reply_size) {
        reply_size = 2 * (reply_used + n);
        reply = realloc(reply, reply_size);
        if (reply == NULL)
            fail("memory for a reply");
    }
    memcpy(reply + reply_used, p, n);
    reply_used += n;
}

static void reply_u32(uint32_t x) {
    reply_bytes(&x, sizeof x);
}

static void reply_u64(uint64_t x) {
    reply_bytes(&x, sizeof x);
}

#endif
