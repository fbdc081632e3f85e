// Match-action tables.
//
// A key is an array of words. Exact and longest-prefix tables use a hash table: an entry is stored
// under its key and its mask, and a lookup tries every mask in use, longest prefix first. Tables
// with ternary or range keys are scanned in order of priority.
#ifndef TABLE_H
#define TABLE_H

#include "meter.h"

#include <stdlib.h>

#define MAX_KEY_WORDS 64

struct entry {
    unsigned action, number; // number: count of entries inserted before it
    int priority;
    uint64_t packets, bytes;
    uint64_t *key, *mask, *data;
    struct meter *meter; // NULL until its rates are set
};

struct mask {
    uint64_t *words;
    unsigned prefix;
};

struct table {
    const char *name;
    unsigned key_words, data_words, capacity;
    bool scanned;
    uint64_t ranges; // mask of key words whose `key` and `mask` are the least and greatest value
    struct entry *miss;
    struct entry **entries; // in order of insertion, or of priority if scanned
    unsigned count;
    struct entry **buckets; // the hash table: a power of two, more than half empty
    size_t bucket_mask;
    struct mask *masks; // longest prefix first
    unsigned mask_count;
};

enum { TABLE_OK, TABLE_FULL, TABLE_DUPLICATE };

INLINE size_t table_hash(const uint64_t *key, unsigned words, unsigned prefix) {
    uint64_t h = prefix + 1;
    for (unsigned i = 0; i < words; i++) {
        h = (h ^ key[i]) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    return (size_t)h;
}

INLINE bool same_words(const uint64_t *x, const uint64_t *y, unsigned words) {
    uint64_t difference = 0;
    for (unsigned i = 0; i < words; i++)
        difference |= x[i] ^ y[i];
    return difference == 0;
}

INLINE struct entry *table_exact(const struct table *t, const uint64_t *key, unsigned words) {
    if (t->count > 0)
        for (size_t i = table_hash(key, words, 0);; i++) {
            struct entry *e = t->buckets[i & t->bucket_mask];
            if (e == NULL)
                break;
            if (same_words(e->key, key, words))
                return e;
        }
    return t->miss;
}

INLINE struct entry *table_longest(const struct table *t, const uint64_t *key, unsigned words) {
    for (unsigned m = 0; m < t->mask_count; m++) {
        const struct mask *mask = &t->masks[m];
        uint64_t masked[MAX_KEY_WORDS];
        for (unsigned i = 0; i < words; i++)
            masked[i] = key[i] & mask->words[i];
        for (size_t i = table_hash(masked, words, mask->prefix);; i++) {
            struct entry *e = t->buckets[i & t->bucket_mask];
            if (e == NULL)
                break;
            if (same_words(e->key, masked, words) && same_words(e->mask, mask->words, words))
                return e;
        }
    }
    return t->miss;
}

INLINE struct entry *table_scan(const struct table *t, const uint64_t *key, unsigned words) {
    for (unsigned n = 0; n < t->count; n++) {
        struct entry *e = t->entries[n];
        bool match = true;
        for (unsigned i = 0; i < words && match; i++)
            if (t->ranges >> i & 1)
                match = e->key[i] <= key[i] && key[i] <= e->mask[i];
            else
                match = (key[i] & e->mask[i]) == e->key[i];
        if (match)
            return e;
    }
    return t->miss;
}

static void *allocate(size_t size) {
    void *p = calloc(1, size ? size : 1);
    if (p == NULL)
        abort();
    return p;
}

static struct entry *entry_new(const struct table *t, unsigned action, const uint64_t *data) {
    struct entry *e = allocate(sizeof *e + 8 * (2 * t->key_words + t->data_words));
    e->key = (uint64_t *)(e + 1);
    e->mask = e->key + t->key_words;
    e->data = e->mask + t->key_words;
    e->action = action;
    memcpy(e->data, data, 8 * t->data_words);
    return e;
}

static void table_hang(struct table *t, struct entry *e, unsigned prefix) {
    size_t i = table_hash(e->key, t->key_words, prefix);
    while (t->buckets[i & t->bucket_mask] != NULL)
        i++;
    t->buckets[i & t->bucket_mask] = e;
}

static void table_grow(struct table *t) {
    t->entries = realloc(t->entries, (t->count + 1) * sizeof *t->entries);
    if (t->entries == NULL)
        abort();
    if (t->scanned || (t->buckets != NULL && 2 * (t->count + 1) < t->bucket_mask))
        return;
    t->bucket_mask = t->bucket_mask ? 2 * t->bucket_mask + 1 : 15;
    free(t->buckets);
    t->buckets = allocate((t->bucket_mask + 1) * sizeof *t->buckets);
    for (unsigned n = 0; n < t->count; n++)
        table_hang(t, t->entries[n], (unsigned)t->entries[n]->priority);
}

static void table_add_mask(struct table *t, const struct entry *e) {
    const unsigned prefix = (unsigned)e->priority;
    unsigned at = 0;
    for (; at < t->mask_count && t->masks[at].prefix >= prefix; at++)
        if (same_words(t->masks[at].words, e->mask, t->key_words))
            return;
    t->masks = realloc(t->masks, (t->mask_count + 1) * sizeof *t->masks);
    if (t->masks == NULL)
        abort();
    memmove(t->masks + at + 1, t->masks + at, (t->mask_count - at) * sizeof *t->masks);
    t->masks[at] = (struct mask){e->mask, prefix};
    t->mask_count++;
}

// `priority` is the prefix length if the table is not scanned, and 0 if it is exact.
static int table_insert(struct table *t, unsigned action, int priority, const uint64_t *key,
                        const uint64_t *mask, const uint64_t *data) {
    const unsigned words = t->key_words;
    if (t->count >= t->capacity)
        return TABLE_FULL;
    for (unsigned n = 0; n < t->count; n++) {
        const struct entry *e = t->entries[n];
        if (same_words(e->key, key, words) && same_words(e->mask, mask, words) &&
            e->priority == priority)
            return TABLE_DUPLICATE;
    }
    table_grow(t);
    struct entry *e = entry_new(t, action, data);
    e->priority = priority;
    e->number = t->count;
    memcpy(e->key, key, 8 * words);
    memcpy(e->mask, mask, 8 * words);
    unsigned at = t->count;
    if (t->scanned)
        while (at > 0 && t->entries[at - 1]->priority > priority)
            at--;
    memmove(t->entries + at + 1, t->entries + at, (t->count - at) * sizeof *t->entries);
    t->entries[at] = e;
    t->count++;
    if (!t->scanned) {
        table_hang(t, e, (unsigned)priority);
        table_add_mask(t, e);
    }
    return TABLE_OK;
}

// The entry with this insertion number; NULL beyond the last.
static struct entry *table_entry(const struct table *t, uint64_t number) {
    for (unsigned n = 0; n < t->count; n++)
        if (t->entries[n]->number == number)
            return t->entries[n];
    return NULL;
}

// Removes all entries, and the default action.
static void table_clear(struct table *t) {
    for (unsigned n = 0; n < t->count; n++) {
        free(t->entries[n]->meter);
        free(t->entries[n]);
    }
    free(t->miss);
    free(t->entries);
    free(t->buckets);
    free(t->masks);
    t->miss = NULL;
    t->entries = t->buckets = NULL;
    t->masks = NULL;
    t->count = t->mask_count = 0;
    t->bucket_mask = 0;
}

static void table_set_miss(struct table *t, unsigned action, const uint64_t *data) {
    struct entry *e = entry_new(t, action, data);
    if (t->miss != NULL) {
        e->packets = t->miss->packets;
        e->bytes = t->miss->bytes;
        free(t->miss);
    }
    t->miss = e;
}

#endif
