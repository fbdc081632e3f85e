#include "reassembly.h"

#include <stdlib.h>
#include <string.h>

/* Index of the first span that ends at `position` or later. */
static uint32_t find(const struct reassembly *stream, uint64_t position)
{
    uint32_t low = 0, high = stream->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (stream->spans[middle].end < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void replace(struct reassembly *stream, uint32_t from, uint32_t until,
                    const struct span *span)
{
    uint32_t count = stream->count - (until - from) + (span ? 1 : 0);
    if (count > stream->room) {
        stream->room = stream->room ? 2 * stream->room : 16;
        stream->spans = realloc(stream->spans, stream->room * sizeof *stream->spans);
        if (!stream->spans)
            abort();
    }
    uint32_t after = from + (span ? 1 : 0);
    if (stream->count)
        memmove(stream->spans + after, stream->spans + until,
                (stream->count - until) * sizeof *stream->spans);
    if (span)
        stream->spans[from] = *span;
    stream->count = count;
}

static const struct span *span_with(const struct reassembly *stream, uint64_t position)
{
    uint32_t i = find(stream, position + 1);
    bool found = i < stream->count && stream->spans[i].start <= position;
    return found ? &stream->spans[i] : NULL;
}

/* Moves the span with `position` to the front, and drops the spans that it has absorbed. */
static void note(struct reassembly *stream, uint64_t position)
{
    uint64_t kept[SACK_BLOCKS] = {position};
    uint32_t count = 1;
    const struct span *changed = span_with(stream, position);
    for (uint32_t i = 0; i < stream->recent_count && count < SACK_BLOCKS; i++) {
        const struct span *other = span_with(stream, stream->recent[i]);
        if (other && other != changed)
            kept[count++] = stream->recent[i];
    }
    memcpy(stream->recent, kept, sizeof kept);
    stream->recent_count = count;
}

bool reassembly_take(struct reassembly *stream, struct span segment)
{
    if (segment.end <= stream->received)
        return false;
    uint32_t first = find(stream, segment.start), last = first;
    while (last < stream->count && stream->spans[last].start <= segment.end)
        last++;
    struct span joined = segment;
    if (last > first) {
        if (stream->spans[first].start < joined.start)
            joined.start = stream->spans[first].start;
        if (stream->spans[last - 1].end > joined.end)
            joined.end = stream->spans[last - 1].end;
    }
    if (joined.start > stream->received) {
        replace(stream, first, last, &joined);
        note(stream, segment.start);
        return false;
    }
    replace(stream, first, last, NULL);
    stream->received = joined.end;
    return true;
}

uint32_t reassembly_report(const struct reassembly *stream, struct span blocks[SACK_BLOCKS])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < stream->recent_count; i++) {
        const struct span *span = span_with(stream, stream->recent[i]);
        if (span)
            blocks[count++] = *span;
    }
    return count;
}

void reassembly_close(struct reassembly *stream)
{
    free(stream->spans);
}
