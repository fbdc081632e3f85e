#include "arena.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { CACHE_LINE = 64, HUGE_PAGE = 2 << 20 };

static size_t rounded(size_t size, size_t unit)
{
    return (size + unit - 1) / unit * unit;
}

static void add_block(struct arena *arena, size_t least)
{
    size_t size = rounded(least, HUGE_PAGE);
    void *block = aligned_alloc(HUGE_PAGE, size);
    void **blocks = realloc(arena->blocks, (arena->blocks_count + 1) * sizeof *blocks);
    if (!block || !blocks)
        abort();
    madvise(block, size, MADV_HUGEPAGE);
    memset(block, 0, size);
    arena->blocks = blocks;
    blocks[arena->blocks_count++] = block;
    arena->free = block;
    arena->left = size;
}

void *arena_take(struct arena *arena, size_t size)
{
    size = rounded(size, CACHE_LINE);
    if (size > arena->left)
        add_block(arena, size);
    void *taken = arena->free;
    arena->free += size;
    arena->left -= size;
    return taken;
}

void arena_close(struct arena *arena)
{
    for (uint32_t i = 0; i < arena->blocks_count; i++)
        free(arena->blocks[i]);
    free(arena->blocks);
}
